"""The base class of the language models' twins, with the next-token loss and the optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch_replay import Batch, TwinBase, adam


class LanguageTwin(TwinBase):
    """Predicts the next token of a text; `network` maps tokens [N, L] to logits [N, L, V]."""

    network: nn.Module

    def make_optimizers(self) -> None:
        self.optimizers = {"optimizer": adam(self.network, self.config["optimizer"], fused=True)}

    def train_step(self, batch: Batch) -> dict[str, torch.Tensor]:
        loss = self.losses(batch).mean()
        self.minimize(loss)
        return {"loss": loss}

    def test(self, batches: list[Batch]) -> dict[str, float]:
        total = weights = 0.0
        for batch in batches:
            total += (self.losses(batch) * batch["weight"]).sum().item()
            weights += batch["weight"].sum().item()
        return {"loss": total / weights}

    def losses(self, batch: Batch) -> torch.Tensor:
        """Returns the nats per token of each text, [N]."""
        tokens = batch["tokens"].long()
        logits, following = self.network(tokens[:, :-1]), tokens[:, 1:]
        return F.cross_entropy(logits.transpose(1, 2), following, reduction="none").mean(1)


def vocabulary(weights: dict[str, Any]) -> int:
    """Returns the vocabulary size of a model with these weights."""
    return len(weights["network.embedding.weight"])
