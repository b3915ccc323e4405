"""ResNet-50 and the networks of pix2pix and LSGAN in PyTorch, with the same layers as in tests/engine/networks."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    """He et al. 2015, with the stride in the 3x3 convolution."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or channels != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)), inplace=True)


class ResNet(nn.Sequential):
    """ResNet-50."""

    def __init__(self, classes: int = 1000) -> None:
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for block in range(count):
                layers.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
                channels = 256 << stage
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class UNet(nn.Module):
    """pix2pix's generator (Isola et al. 2017)."""

    def __init__(self, filters: int = 64, depth: int = 8) -> None:
        super().__init__()
        channels = [min(filters << level, filters * 8) for level in range(depth)]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level in range(depth):
            layers: list[nn.Module] = [nn.LeakyReLU(0.2)] if level else []
            layers.append(nn.Conv2d(channels[level - 1] if level else 3, channels[level], 4, 2, 1))
            layers += [nn.BatchNorm2d(channels[level])] if 0 < level < depth - 1 else []
            self.down.append(nn.Sequential(*layers))
        for level in reversed(range(depth)):
            into = channels[level] * (1 if level == depth - 1 else 2)
            out = channels[level - 1] if level else 3
            layers = [nn.ReLU(), nn.ConvTranspose2d(into, out, 4, 2, 1)]
            self.up.append(nn.Sequential(*layers, *([nn.BatchNorm2d(out)] if level else [])))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        for number, up in enumerate(self.up):
            x = up(torch.cat([x, skips[-1 - number]], 1) if number else x)
        return torch.tanh(x)


def patch_discriminator(filters: int = 64) -> nn.Sequential:
    """pix2pix's PatchGAN on image and condition."""
    layers: list[nn.Module] = [nn.Conv2d(6, filters, 4, 2, 1), nn.LeakyReLU(0.2)]
    for level, stride in ((0, 2), (1, 2), (2, 1)):
        into, out = filters << level, filters << (level + 1)
        layers += [nn.Conv2d(into, out, 4, stride, 1), nn.BatchNorm2d(out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(filters * 8, 1, 4, 1, 1))


def lsgan_generator(filters: int = 64, noise: int = 1024) -> nn.Sequential:
    """LSGAN's generator for 112x112 (Mao et al. 2017)."""
    wide = 4 * filters
    layers: list[nn.Module] = [nn.Linear(noise, 7 * 7 * wide), nn.Unflatten(1, (wide, 7, 7))]
    layers += [nn.BatchNorm2d(wide), nn.ReLU()]
    for into, out, stride in (
        (wide, wide, 2),
        (wide, wide, 1),
        (wide, wide, 2),
        (wide, wide // 2, 2),
        (wide // 2, filters, 2),
    ):
        layers += [nn.ConvTranspose2d(into, out, 5, stride, 2, stride - 1), nn.BatchNorm2d(out), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(filters, 3, 5, 1, 2), nn.Tanh())


def lsgan_discriminator(filters: int = 64) -> nn.Sequential:
    """LSGAN's discriminator."""
    layers: list[nn.Module] = [nn.Conv2d(3, filters, 5, 2, 2), nn.LeakyReLU(0.2)]
    for level in range(3):
        into, out = filters << level, filters << (level + 1)
        layers += [nn.Conv2d(into, out, 5, 2, 2), nn.BatchNorm2d(out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(7 * 7 * 8 * filters, 1))
