"""Convolution, norm and activation: the basic block of nearly every image network."""

from __future__ import annotations

from trainer.engine import nn


def convolution_block(
    in_channels: int,
    out_channels: int,
    kernel_size: int = 3,
    stride: int = 1,
    *,
    groups: int = 1,
    activation: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """Convolution without bias, batch norm, activation: [N, C, H, W] to [N, K, H / stride, W / stride], rounded up."""
    layers: list[nn.Module] = [
        nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding=kernel_size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out_channels),
    ]
    return nn.Sequential(*layers, *([] if activation is None else [activation()]))
