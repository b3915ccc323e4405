"""The recipe digits in plain PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch_replay import Batch, Dropout, TwinBase, adam


def convolution(in_channels: int, out_channels: int, kernel_size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size, stride, kernel_size // 2, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
    )


class Twin(TwinBase):
    """LeNet's task with a small network."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.network = nn.Sequential(
            convolution(1, 32, 5, 2),
            convolution(32, 32, 3),
            nn.MaxPool2d(2),
            convolution(32, 64, 3),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 3 * 3, 128),
            nn.ReLU(),
            Dropout(self.options["dropout"]),
            nn.Linear(128, 10),
        )

    def make_optimizers(self) -> None:
        self.optimizers = {"optimizer": adam(self.network, self.config["optimizer"])}

    def train_step(self, batch: Batch) -> dict[str, torch.Tensor]:
        loss = F.cross_entropy(self.logits(batch), batch["label"])
        self.minimize(loss)
        return {"loss": loss}

    def test(self, batches: list[Batch]) -> dict[str, float]:
        right = total = 0.0
        for batch in batches:
            is_right = self.logits(batch).argmax(1) == batch["label"]
            right += (is_right * batch["weight"]).sum().item()
            total += batch["weight"].sum().item()
        return {"accuracy": right / total, "images": total}

    def logits(self, batch: Batch) -> torch.Tensor:
        return self.network((batch["image"].float() * (1 / 255)).to(self.dtype))
