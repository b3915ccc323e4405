"""A feature pyramid (Lin et al. 2017): coarse, semantic features are added to fine, well-localized ones."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine import Tensor, nn


class FeaturePyramid(nn.Module):
    """Projects features [N, C_l, H_l, W_l] of levels, the finest first and each half as large as the one before,
    to `out_channels` at the same levels.

    Each level passes a 1x1 convolution; starting with the coarsest, each sum is upsampled and added to the next level;
    a 3x3 convolution smooths the result. Parameter names are those of torchvision's `FeaturePyramidNetwork`.
    """

    def __init__(self, in_channels: Sequence[int], out_channels: int) -> None:
        self.inner_blocks = nn.ModuleList(
            [nn.Sequential(nn.Conv2d(channels, out_channels, 1)) for channels in in_channels]
        )
        self.layer_blocks = nn.ModuleList(
            [nn.Sequential(nn.Conv2d(out_channels, out_channels, 3, padding=1)) for _ in in_channels]
        )

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        inner = [block(level) for block, level in zip(self.inner_blocks, features, strict=True)]
        for finer in reversed(range(len(inner) - 1)):
            coarser = nn.functional.interpolate(inner[finer + 1], inner[finer].shape[2:], mode="nearest")
            inner[finer] = inner[finer] + coarser
        return [block(level) for block, level in zip(self.layer_blocks, inner, strict=True)]
