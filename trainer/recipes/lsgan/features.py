"""The features that compare generated and real photos: those of the first stages of the clothes network."""

from __future__ import annotations

from trainer.engine import Tensor, nn
from trainer.recipes.parts.resnet import ResNet


class ClothesFeatures(nn.Module):
    """Images [N, 3, H, W] in (-1, 1) to features [N, 128]."""

    def __init__(self) -> None:
        self.network = ResNet((2, 2, 2), width=32, classes=0)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.network(pictures * (127.5 / 64) + (127.5 / 64 - 2))
