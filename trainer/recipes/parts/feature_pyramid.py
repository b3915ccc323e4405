"""A feature pyramid (Lin et al. 2017): coarse features, which know what, added to fine ones, which know where."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine import Tensor, nn


class FeaturePyramid(nn.Module):
    """Features [N, C_l, H_l, W_l] of several levels, the finest first, each half as large as the one before, made
    features of `out_channels` at the same levels.

    Each level goes through a convolution of 1x1; from the coarsest up it is enlarged to the next and added; what comes
    out is smoothed by one of 3x3. States are named as those of torchvision's `FeaturePyramidNetwork`.
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
