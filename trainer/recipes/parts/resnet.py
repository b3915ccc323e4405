"""Residual networks (He et al. 2015), standard and small, with torchvision's parameter names.

ResNet-18 is `ResNet((2, 2, 2, 2))`, ResNet-50 `ResNet((3, 4, 6, 3), Bottleneck)`; torchvision's weights load without
renaming. For small images, `stem="small"` halves the size once instead of twice before the first stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trainer.engine import Tensor, nn
from trainer.engine.nn.functional import relu
from trainer.engine.nn.initializers import kaiming_normal, zeros
from trainer.engine.nn.parameter import declare


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a skip connection; the stride is in the first."""

    expansion = 1

    def __init__(self, in_channels: int, width: int, stride: int = 1) -> None:
        self.conv1, self.bn1 = _convolution(in_channels, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _convolution(width, width, 3), _last_norm(width)
        self.downsample = _shortcut(in_channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with a skip connection; the stride is in the 3x3, as in torchvision."""

    expansion = 4

    def __init__(self, in_channels: int, width: int, stride: int = 1) -> None:
        out_channels = self.expansion * width
        self.conv1, self.bn1 = _convolution(in_channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _convolution(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = _convolution(width, out_channels, 1), _last_norm(out_channels)
        self.downsample = _shortcut(in_channels, out_channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.bn1(self.conv1(x)))
        y = relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """x [N, 3, H, W] to logits [N, classes]; `stages` returns the output of each stage, `pooled` the input of the
    classifier.

    Args:
        blocks: number of blocks in each stage.
        block: BasicBlock or Bottleneck.
        width: channels of the first stage's 3x3 convolutions; each following stage has twice as many.
        classes: number of classes; 0: no classifier, only features.
        stem: "standard": 7x7 at stride 2 and max pooling, to a quarter of the size; "small": 3x3 at stride 2, to half.
        dropout: fraction of pooled features that are dropped during training.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        block: type[BasicBlock] | type[Bottleneck] = BasicBlock,
        *,
        width: int = 64,
        classes: int = 1000,
        stem: Literal["standard", "small"] = "standard",
        dropout: float = 0.0,
    ) -> None:
        self.conv1 = _convolution(3, width, 7 if stem == "standard" else 3, 2)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if stem == "standard" else None
        self.channels = [block.expansion * width << stage for stage in range(len(blocks))]
        in_channels = width
        for stage, count in enumerate(blocks):
            layer = nn.Sequential()
            for number in range(count):
                layer.append(block(in_channels, width << stage, 2 if stage and not number else 1))
                in_channels = self.channels[stage]
            setattr(self, f"layer{stage + 1}", layer)
        self.dropout = nn.Dropout(dropout) if dropout else None
        self.fc = nn.Linear(in_channels, classes) if classes else None

    def stages(self, x: Tensor) -> list[Tensor]:
        """The output of each stage, [N, channels[i], H_i, W_i]; each half the size of the one before."""
        x = relu(self.bn1(self.conv1(x)))
        x = x if self.maxpool is None else self.maxpool(x)
        made = []
        for stage in range(len(self.channels)):
            x = getattr(self, f"layer{stage + 1}")(x)
            made.append(x)
        return made

    def pooled(self, x: Tensor) -> Tensor:
        """[N, C]: the last stage's features, averaged over each image."""
        return self.stages(x)[-1].mean(axis=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pooled(x)
        x = x if self.dropout is None else self.dropout(x)
        return x if self.fc is None else self.fc(x)


def _convolution(in_channels: int, out_channels: int, kernel_size: int, stride: int = 1) -> nn.Conv2d:
    made = nn.Conv2d(in_channels, out_channels, kernel_size, stride, kernel_size // 2, bias=False)
    made.weight = declare((out_channels, in_channels, kernel_size, kernel_size), kaiming_normal(mode="fan_out"))
    return made


def _last_norm(channels: int) -> nn.BatchNorm2d:
    """A norm with an initial scale of 0, so that its block starts as the identity (Goyal et al. 2017)."""
    norm = nn.BatchNorm2d(channels)
    norm.weight = declare((channels,), zeros)
    return norm


def _shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and in_channels == out_channels:
        return None
    return nn.Sequential(_convolution(in_channels, out_channels, 1, stride), nn.BatchNorm2d(out_channels))
