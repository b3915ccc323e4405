"""The discriminator of pix2pix (PatchGAN, Isola et al. 2017, appendix 6.1.2): each output classifies a 70x70 patch."""

from __future__ import annotations

from trainer import engine
from trainer.engine import Tensor, nn

SLOPE = 0.2
"""Negative slope of its leaky ReLUs."""


class PatchDiscriminator(nn.Module):
    """Classifies `picture` [N, C, H, W] given `source` [N, D, H, W]: logits of patches, [N, 1, H/8-2, W/8-2].

    C64-C128-C256-C512 of 4x4 convolutions, the first three with stride 2, and one more to a single channel. `channels`
    is C + D.
    """

    def __init__(self, channels: int = 6, *, filters: int = 64) -> None:
        self.layers = nn.Sequential(nn.Conv2d(channels, filters, 4, 2, 1), nn.LeakyReLU(SLOPE))
        for level, stride in ((0, 2), (1, 2), (2, 1)):
            into, out = filters << level, filters << (level + 1)
            self.layers.append(nn.Conv2d(into, out, 4, stride, 1, bias=False))
            self.layers.append(nn.InstanceNorm2d(out, affine=True))
            self.layers.append(nn.LeakyReLU(SLOPE))
        self.layers.append(nn.Conv2d(filters * 8, 1, 4, 1, 1))

    def forward(self, source: Tensor, picture: Tensor) -> Tensor:
        return self.layers(engine.concat([source, picture], axis=1))
