"""The recipe vit in plain PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch_replay import Batch, TwinBase, adam


class Positions(nn.Module):
    """A learned vector for each position."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight


class VisionTransformer(nn.Module):
    """Patches that attend to each other, then their mean."""

    def __init__(self, options: dict[str, Any], classes: int) -> None:
        super().__init__()
        width, dropout = options["width"], options["dropout"]
        self.patches = nn.Conv2d(3, width, options["patch"], options["patch"])
        self.positions = Positions((options["size"] // options["patch"]) ** 2, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, options["heads"], 4 * width, dropout, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(options["depth"])
        )
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.dropout(self.positions(self.patches(x).flatten(2).transpose(1, 2)))
        for block in self.blocks:
            tokens = block(tokens)
        return self.classes(self.norm(tokens).mean(1))


class Twin(TwinBase):
    """A vision transformer; draws the rectangles of CutMix itself."""

    def __init__(self, config: dict[str, Any], weights: dict[str, torch.Tensor]) -> None:
        super().__init__(config)
        self.network = VisionTransformer(self.options, len(weights["network.classes.bias"]))

    def make_optimizers(self) -> None:
        self.optimizers = {"optimizer": adam(self.network, self.config["optimizer"], fused=True)}

    def train_step(self, batch: Batch) -> dict[str, torch.Tensor]:
        shares = batch["labels_hot"].to(self.dtype)
        pictures, shares = cutmix(self.to_floats(batch["image"]), shares, self.options["cutmix"])
        loss = F.cross_entropy(self.network(pictures), shares)
        self.minimize(loss)
        return {"loss": loss}

    def test(self, batches: list[Batch]) -> dict[str, float]:
        right = total = 0.0
        for batch in batches:
            pictures = self.to_floats(batch["image"])
            logits = self.network(pictures) + self.network(pictures.flip(3))
            right += ((logits.argmax(1) == batch["label"]) * batch["weight"]).sum().item()
            total += batch["weight"].sum().item()
        return {"accuracy": right / total}

    def to_floats(self, pixels: torch.Tensor) -> torch.Tensor:
        return (pixels.float() * (1 / 64) - 2).to(self.dtype)


def cutmix(images: torch.Tensor, shares: torch.Tensor, probability: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns images and class probabilities with rectangles pasted from the batch in reverse order."""
    count, _, height, width = images.shape
    side = torch.rand(count, 1, 1, 1).sqrt() * (torch.rand(count, 1, 1, 1) < probability)
    rows, columns = ((torch.arange(extent) + 0.5) / extent for extent in (height, width))
    is_pasted = (rows.view(1, 1, -1, 1) - torch.rand(count, 1, 1, 1)).abs() < side / 2
    is_pasted = is_pasted & ((columns - torch.rand(count, 1, 1, 1)).abs() < side / 2)
    share = is_pasted.float().mean((1, 2, 3))[:, None].to(shares.dtype)
    return torch.where(is_pasted, images.flip(0), images), shares * (1 - share) + shares.flip(0) * share
