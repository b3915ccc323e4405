"""The generator of pix2pix (Isola et al. 2017, appendix 6.1.1): a U-Net down to a single pixel and back."""

from __future__ import annotations

from trainer import engine
from trainer.engine import Tensor, nn

SLOPE = 0.2
"""Negative slope of the leaky ReLU in the encoder."""
WIDEST = 8
"""Maximum number of channels, as a multiple of those of the first level."""
DROPPING_LEVELS = 3
"""Number of decoder levels with dropout after the innermost one: the noise that gives one input several outputs."""


class Pix2PixGenerator(nn.Module):
    """x [N, in_channels, H, W], H and W divisible by 2^depth, gives [N, out_channels, H, W] in (-1, 1).

    `depth` 4x4 convolutions that halve the size, then as many transposed convolutions that double it, with skip
    connections between equal sizes. With 256 pixels and a depth of 8 the bottleneck is one pixel.

    The paper's batch norm over batches of one image, in training and inference, equals instance norm, which needs no
    statistics of other images. As in the authors' code, the outermost and the innermost convolution have no norm.
    """

    def __init__(
        self, in_channels: int = 3, out_channels: int = 3, *, filters: int = 64, depth: int = 8, dropout: float = 0.5
    ) -> None:
        channels = [filters * min(2**level, WIDEST) for level in range(depth)]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        self.down.append(nn.Conv2d(in_channels, filters, 4, 2, 1))
        for level in range(1, depth):
            is_innermost = level == depth - 1
            convolution = nn.Conv2d(channels[level - 1], channels[level], 4, 2, 1, bias=is_innermost)
            norm = nn.Identity() if is_innermost else nn.InstanceNorm2d(channels[level], affine=True)
            self.down.append(nn.Sequential(nn.LeakyReLU(SLOPE), convolution, norm))
        for level in reversed(range(1, depth)):
            is_innermost = level == depth - 1
            into = channels[level] * (1 if is_innermost else 2)
            doubling = nn.ConvTranspose2d(into, channels[level - 1], 4, 2, 1, bias=False)
            norm = nn.InstanceNorm2d(channels[level - 1], affine=True)
            drops = depth - 1 - DROPPING_LEVELS <= level < depth - 1
            self.up.append(nn.Sequential(nn.ReLU(), doubling, norm, nn.Dropout(dropout if drops else 0.0)))
        self.up.append(nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(2 * filters, out_channels, 4, 2, 1), nn.Tanh()))

    def forward(self, x: Tensor) -> Tensor:
        skipped = []
        for down in self.down:
            x = down(x)
            skipped.append(x)
        x = self.up[0](skipped.pop())
        for up in self.up[1:]:
            x = up(engine.concat([x, skipped.pop()], axis=1))
        return x
