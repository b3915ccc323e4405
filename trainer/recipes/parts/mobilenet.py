"""MobileNetV3-Small (Howard et al. 2019), with torchvision's parameter names: its weights load without renaming."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine import Tensor, nn
from trainer.engine.nn.initializers import kaiming_normal, normal, zeros
from trainer.engine.nn.parameter import declare

LAST, HIDDEN = 576, 1024
ENDS = (1, 3, 8, 12)
"""The last layer at each resolution: 1/4, 1/8, 1/16 and 1/32 of the size."""


@dataclass(frozen=True)
class Row:
    """A row of the paper's table 2; `is_hard`: Hardswish instead of ReLU."""

    kernel_size: int
    expanded: int
    channels: int
    squeezes: bool
    is_hard: bool
    stride: int


ROWS = (
    Row(3, 16, 16, True, False, 2),
    Row(3, 72, 24, False, False, 2),
    Row(3, 88, 24, False, False, 1),
    Row(5, 96, 40, True, True, 2),
    Row(5, 240, 40, True, True, 1),
    Row(5, 240, 40, True, True, 1),
    Row(5, 120, 48, True, True, 1),
    Row(5, 144, 48, True, True, 1),
    Row(5, 288, 96, True, True, 2),
    Row(5, 576, 96, True, True, 1),
    Row(5, 576, 96, True, True, 1),
)


class MobileNetV3Small(nn.Module):
    """x [N, 3, H, W] to logits [N, classes]; `stages` returns the features at a quarter of the size and coarser.

    Args:
        classes: number of classes; 0: no classifier, only features.
        dropout: fraction of the classifier's hidden features that are dropped during training.
    """

    def __init__(self, classes: int = 1000, *, dropout: float = 0.2) -> None:
        self.features = nn.Sequential(_block(3, 16, 3, 2, activation=nn.Hardswish))
        channels = 16
        for row in ROWS:
            self.features.append(InvertedResidual(channels, row))
            channels = row.channels
        self.features.append(_block(channels, LAST, 1, activation=nn.Hardswish))
        self.channels = [*(ROWS[end - 1].channels for end in ENDS[:-1]), LAST]
        self.classifier = None
        if classes:
            layers = (_linear(LAST, HIDDEN), nn.Hardswish(), nn.Dropout(dropout), _linear(HIDDEN, classes))
            self.classifier = nn.Sequential(*layers)

    def stages(self, x: Tensor) -> list[Tensor]:
        """The features [N, channels[i], H_i, W_i] at a quarter, an eighth, … of the size."""
        made = []
        for number, layer in enumerate(self.features):
            x = layer(x)
            if number in ENDS:
                made.append(x)
        return made

    def pooled(self, x: Tensor) -> Tensor:
        """[N, C]: the last stage's features, averaged over each image."""
        return self.stages(x)[-1].mean(axis=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pooled(x)
        return x if self.classifier is None else self.classifier(x)


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, squeeze-and-excitation and projection, with a skip connection if the shape is
    unchanged.
    """

    def __init__(self, in_channels: int, row: Row) -> None:
        activation = nn.Hardswish if row.is_hard else nn.ReLU
        self.block = nn.Sequential()
        if row.expanded != in_channels:
            self.block.append(_block(in_channels, row.expanded, 1, activation=activation))
        self.block.append(
            _block(row.expanded, row.expanded, row.kernel_size, row.stride, row.expanded, activation=activation)
        )
        if row.squeezes:
            self.block.append(SqueezeExcitation(row.expanded, _multiple_of_8(row.expanded // 4)))
        self.block.append(_block(row.expanded, row.channels, 1))
        self.is_residual = row.stride == 1 and in_channels == row.channels

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x) if self.is_residual else self.block(x)


class SqueezeExcitation(nn.Module):
    """Scales each channel by a factor from 0 to 1, computed from the means of all channels (Hu et al. 2018)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        self.fc1, self.fc2 = (
            _convolution(channels, squeezed, 1, bias=True),
            _convolution(squeezed, channels, 1, bias=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        means = x.mean(axis=(2, 3), keepdims=True)
        return x * nn.functional.hardsigmoid(self.fc2(nn.functional.relu(self.fc1(means))))


def _block(
    in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, groups: int = 1, *,
    activation: type[nn.Module] | None = None,
) -> nn.Sequential:  # fmt: skip
    convolution = _convolution(in_channels, out_channels, kernel_size, stride, groups)
    norm = nn.BatchNorm2d(out_channels, eps=0.001, momentum=0.01)
    return nn.Sequential(convolution, norm, *([] if activation is None else [activation()]))


def _convolution(
    in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, groups: int = 1, *, bias: bool = False
) -> nn.Conv2d:
    made = nn.Conv2d(in_channels, out_channels, kernel_size, stride, kernel_size // 2, groups=groups, bias=bias)
    made.weight = declare(
        (out_channels, in_channels // groups, kernel_size, kernel_size), kaiming_normal(mode="fan_out")
    )
    if bias:
        made.bias = declare((out_channels,), zeros)
    return made


def _linear(in_features: int, out_features: int) -> nn.Linear:
    made = nn.Linear(in_features, out_features)
    made.weight, made.bias = declare((out_features, in_features), normal(std=0.01)), declare((out_features,), zeros)
    return made


def _multiple_of_8(count: int) -> int:
    """The nearest multiple of 8 that is at least 90 % of `count`, and at least 8."""
    rounded = max(8, (count + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * count else rounded + 8
