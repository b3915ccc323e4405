"""ResNet-50 and the pairs of networks of pix2pix and LSGAN, from the layers of `trainer.engine.nn`, under their
published names.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.engine.nn.functional import relu

RESNET_50 = (3, 4, 6, 3)


class Bottleneck(nn.Module):
    """He et al. 2015, with the stride in the 3x3 convolution."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or channels != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.bn1(self.conv1(x)))
        y = relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Four stages of `blocks` bottlenecks, of 4·width, 8·width, 16·width and 32·width channels; names as in torch."""

    def __init__(self, blocks: Sequence[int] = RESNET_50, width: int = 64, classes: int = 1000) -> None:
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = width
        for stage, count in enumerate(blocks):
            layer = nn.Sequential()
            for block in range(count):
                layer.append(Bottleneck(channels, width << stage, 2 if stage and not block else 1))
                channels = 4 * width << stage
            setattr(self, f"layer{stage + 1}", layer)
        self.stages = len(blocks)
        self.avgpool, self.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(relu(self.bn1(self.conv1(x))))
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(self.flatten(self.avgpool(x)))


class UNet(nn.Module):
    """pix2pix's generator (Isola et al. 2017): `depth` halvings and doublings, with skips between both halves.

    x [N, 3, H, W], H and W divisible by 2^depth, gives [N, 3, H, W] in (-1, 1).
    """

    def __init__(self, filters: int = 64, depth: int = 8) -> None:
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

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        for number, up in enumerate(self.up):
            x = up(engine.concat([x, skips[-1 - number]], axis=1) if number else x)
        return engine.tanh(x)


def patch_discriminator(filters: int = 64) -> nn.Sequential:
    """pix2pix's PatchGAN on picture and condition [N, 6, H, W]: a logit for each patch of 70 x 70."""
    layers: list[nn.Module] = [nn.Conv2d(6, filters, 4, 2, 1), nn.LeakyReLU(0.2)]
    for level, stride in ((0, 2), (1, 2), (2, 1)):
        into, out = filters << level, filters << (level + 1)
        layers += [nn.Conv2d(into, out, 4, stride, 1), nn.BatchNorm2d(out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(filters * 8, 1, 4, 1, 1))


def lsgan_generator(filters: int = 64, noise: int = 1024) -> nn.Sequential:
    """LSGAN's generator (Mao et al. 2017) for 112 x 112, with one of the paper's 5x5 layers less: noise [N, `noise`]
    gives [N, 3, 112, 112] in (-1, 1).
    """
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
    """LSGAN's discriminator: [N, 3, 112, 112] to one unbounded judgement each."""
    layers: list[nn.Module] = [nn.Conv2d(3, filters, 5, 2, 2), nn.LeakyReLU(0.2)]
    for level in range(3):
        into, out = filters << level, filters << (level + 1)
        layers += [nn.Conv2d(into, out, 5, 2, 2), nn.BatchNorm2d(out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(7 * 7 * 8 * filters, 1))
