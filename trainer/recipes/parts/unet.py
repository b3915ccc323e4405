"""U-Net (Ronneberger, Fischer and Brox 2015, "U-Net: Convolutional Networks for Biomedical Image Segmentation").

A contracting path of convolutions and poolings, and an expanding path with skip connections at each resolution.
Relative to the paper: batch norm, images keep their size, and bilinear upsampling after a 1x1 convolution, which costs
an eighth of the paper's transposed convolution and leaves no checkerboard artifacts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trainer import TrainerError, engine
from trainer.engine import Tensor, nn
from trainer.recipes.parts.backbones import Backbone
from trainer.recipes.parts.blocks import convolution_block

FINEST = 4
"""Reduction of a backbone's first features."""


class UNet(nn.Module):
    """x [N, `in_channels`, H, W] to maps [N, `out_channels`, H / `reduction`, W / `reduction`].

    H and W are multiples of `multiple`.

    Args:
        in_channels, out_channels: of the images and the maps.
        widths: channels at each resolution, from the highest to the lowest.
        reduction: 1, or a power of two by which the first convolutions reduce the image. 2 costs a quarter of 1;
            outputs can be upsampled.
        backbone: replaces the contracting path by a network with features at 1/4 of the size and coarser, whose
            reduction is 4; the expanding path then uses the first of `widths`, one fewer than the backbone's features.

    Raises:
        TrainerError: there are fewer `widths` than the backbone needs, or the reduction is not a power of two.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        widths: Sequence[int] = (16, 32, 64, 128, 160),
        reduction: int = 1,
        backbone: Backbone | None = None,
    ) -> None:
        self.backbone = backbone
        self.reduction = reduction if backbone is None else FINEST
        skips = list(widths) if backbone is None else backbone.channels
        first = widths[0]
        if len(widths) < len(skips) - 1:
            raise TrainerError(
                "the U-Net has fewer widths than its backbone needs", found=f"{len(widths)} widths",
                expected=f"at least {len(skips) - 1}, one for each resolution but the lowest",
            )  # fmt: skip
        self.multiple = self.reduction << (len(skips) - 1)
        if backbone is None:
            self.stem = stem(in_channels, first, reduction)
        self.down, self.reduce, self.up = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        if backbone is None:
            for above, width in pairwise(widths):
                self.down.append(
                    nn.Sequential(nn.MaxPool2d(2), convolution_block(above, width), convolution_block(width, width))
                )
        below = skips[-1]
        for skip, width in reversed(list(zip(skips[:-1], widths, strict=False))):
            self.reduce.append(nn.Conv2d(below, width, 1))
            self.up.append(nn.Sequential(convolution_block(skip + width, width), convolution_block(width, width)))
            below = width
        self.enlarge = nn.Upsample(scale_factor=2, mode="bilinear")
        self.head = nn.Conv2d(first, out_channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2] % self.multiple or x.shape[3] % self.multiple:
            raise TrainerError(
                "the U-Net can't halve an image of this size at every level",
                found=f"{x.shape[2]}x{x.shape[3]}",
                expected=f"height and width that are multiples of {self.multiple}",
            )
        *skips, x = self.contract(x) if self.backbone is None else self.backbone.stages(x)
        for reduce, up in zip(self.reduce, self.up, strict=True):
            x = up(engine.concat([skips.pop(), self.enlarge(reduce(x))], axis=1))
        return self.head(x)

    def contract(self, x: Tensor) -> list[Tensor]:
        """The features of the contracting path at each resolution, the highest first."""
        made = [self.stem(x)]
        for down in self.down:
            made.append(down(made[-1]))
        return made


def stem(in_channels: int, width: int, reduction: int) -> nn.Sequential:
    """Two convolutions; with a reduction, one per halving with channels doubling up to `width`, and one more."""
    halvings = reduction.bit_length() - 1
    if reduction != 1 << halvings:
        raise TrainerError("the reduction of a U-Net must be a power of two", found=reduction, expected="1, 2, 4, …")
    widths = [in_channels, *(width >> left for left in reversed(range(max(halvings, 1))))]
    stride = 2 if halvings else 1
    first = [convolution_block(a, b, stride=stride) for a, b in pairwise(widths)]
    return nn.Sequential(*first, convolution_block(width, width))
