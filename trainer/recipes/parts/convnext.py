"""ConvNeXt-Tiny (Liu et al. 2022), with torchvision's parameter names: its weights load without renaming.

Stochastic depth, a regularization of long trainings, is left out.
"""

from __future__ import annotations

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.engine.nn.initializers import constant, trunc_normal, zeros
from trainer.engine.nn.parameter import declare

DEPTHS, WIDTH = (3, 3, 9, 3), 96
EPSILON = 1e-6
LAYER_SCALE = 1e-6
CHANNELS_LAST, CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


class ConvNeXtTiny(nn.Module):
    """x [N, 3, H, W] to logits [N, classes]; `stages` returns the features of each stage.

    Args:
        classes: number of classes; 0: no classifier, only features.
        dropout: fraction of pooled features that are dropped during training.
    """

    def __init__(self, classes: int = 1000, *, dropout: float = 0.0) -> None:
        self.channels = [WIDTH << stage for stage in range(len(DEPTHS))]
        self.features = nn.Sequential(nn.Sequential(_convolution(3, WIDTH, 4, 4), LayerNorm2d(WIDTH, EPSILON)))
        for stage, (depth, width) in enumerate(zip(DEPTHS, self.channels, strict=True)):
            if stage:
                narrow = self.channels[stage - 1]
                self.features.append(nn.Sequential(LayerNorm2d(narrow, EPSILON), _convolution(narrow, width, 2, 2)))
            self.features.append(nn.Sequential(*(Block(width) for _ in range(depth))))
        self.dropout = nn.Dropout(dropout) if dropout else None
        self.classifier = None
        if classes:
            last = self.channels[-1]
            self.classifier = nn.Sequential(LayerNorm2d(last, EPSILON), nn.Flatten(), _linear(last, classes))

    def stages(self, x: Tensor) -> list[Tensor]:
        """The features [N, channels[i], H_i, W_i] at a quarter, an eighth, … of the size."""
        made = []
        for number, layer in enumerate(self.features):
            x = layer(x)
            if number % 2:
                made.append(x)
        return made

    def pooled(self, x: Tensor) -> Tensor:
        """[N, C]: the last stage's features, averaged over each image."""
        return self.stages(x)[-1].mean(axis=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        if self.classifier is None:
            return self.pooled(x)
        x = self.stages(x)[-1].mean(axis=(2, 3), keepdims=True)
        return self.classifier(x if self.dropout is None else self.dropout(x))


class Block(nn.Module):
    """Depthwise 7x7 convolution, layer norm, and two linear layers, with a skip connection."""

    def __init__(self, width: int) -> None:
        self.layer_scale = declare((width, 1, 1), constant(LAYER_SCALE))
        self.block = nn.Sequential(
            _convolution(width, width, 7, padding=3, groups=width),
            Permute(CHANNELS_LAST),
            nn.LayerNorm(width, EPSILON),
            _linear(width, 4 * width),
            nn.GELU(),
            _linear(4 * width, width),
            Permute(CHANNELS_FIRST),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layer_scale * self.block(x)


class LayerNorm2d(nn.LayerNorm):
    """Layer norm over the channels of each pixel, [N, C, H, W]."""

    def forward(self, x: Tensor) -> Tensor:
        return engine.permute_dims(super().forward(engine.permute_dims(x, CHANNELS_LAST)), CHANNELS_FIRST)


class Permute(nn.Module):
    """Permutes the axes."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        return engine.permute_dims(x, self.axes)


def _convolution(
    in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, *, padding: int = 0, groups: int = 1
) -> nn.Conv2d:
    made = nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, groups=groups)
    made.weight = declare((out_channels, in_channels // groups, kernel_size, kernel_size), trunc_normal(std=0.02))
    made.bias = declare((out_channels,), zeros)
    return made


def _linear(in_features: int, out_features: int) -> nn.Linear:
    made = nn.Linear(in_features, out_features)
    made.weight, made.bias = (
        declare((out_features, in_features), trunc_normal(std=0.02)),
        declare((out_features,), zeros),
    )
    return made
