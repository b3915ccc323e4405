"""Small networks drawn at random: odd sizes, strides, groups, skips, movement between layers, and any optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.learner import SGD, Adam

STEPS = 3
MOST_CHANNELS, LARGEST_EXTENT = 40, 40

Size = tuple[int, int, int]
"""Channels, rows and columns."""


class Applied(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor], name: str) -> None:
        self.function, self.name = function, name

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return self.name


class Skip(nn.Module):
    """x joined with a branch of it: added, appended as channels, or multiplied by the branch's means."""

    def __init__(self, channels: int, how: str) -> None:
        self.branch = nn.Sequential(nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels))
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        y = self.branch(x)
        if self.how == "add":
            return x + y
        if self.how == "append":
            return engine.concat([x, y], axis=1)
        return x * nn.functional.sigmoid(engine.mean(y, axis=(2, 3), keepdims=True))

    def extra_repr(self) -> str:
        return self.how


def _convolution(draw: Callable[[int, int], int], size: Size) -> nn.Module:
    groups = size[0] if draw(0, 3) == 0 else 1
    window = draw(1, 4), draw(1, 3)
    return nn.Conv2d(size[0], groups * draw(1, 8), window, draw(1, 2), draw(0, 2), draw(1, 2), groups, draw(0, 1) == 0)


def _transposed(draw: Callable[[int, int], int], size: Size) -> nn.Module:
    stride = draw(1, 2)
    return nn.ConvTranspose2d(size[0], draw(1, 8), draw(2, 4), stride, draw(0, 1), draw(0, stride - 1))


def _pool(draw: Callable[[int, int], int], size: Size) -> nn.Module:
    window = draw(1, 3)
    return nn.MaxPool2d(window, draw(1, 3), draw(0, window // 2))


ACTIVATIONS = (engine.tanh, nn.functional.sigmoid, nn.functional.relu, lambda x: engine.where(x > 0, x, x * 0.2))
MOVES: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    ("slice", lambda x: x[:, :, 1:, ::2]),
    ("flip", lambda x: engine.flip(x, axis=2)),
    ("zeros behind", lambda x: engine.concat([x, engine.zeros_like(x)], axis=3)),
    ("product with its transpose", lambda x: engine.matmul(x, engine.matrix_transpose(x)) * 0.1),
    ("columns first", lambda x: engine.permute_dims(x, (0, 1, 3, 2))),
)

LAYERS: tuple[Callable[[Callable[[int, int], int], Size], nn.Module], ...] = (
    _convolution,
    _convolution,
    _transposed,
    _pool,
    lambda draw, size: nn.AvgPool2d(draw(1, 3), draw(1, 3)),
    lambda draw, size: nn.BatchNorm2d(size[0]),
    lambda draw, size: nn.LayerNorm(size),
    lambda draw, size: Skip(size[0], ("add", "append", "gate")[draw(0, 2)]),
    lambda draw, size: Applied(ACTIVATIONS[number := draw(0, 3)], f"activation {number}"),
    lambda draw, size: Applied(*reversed(MOVES[draw(0, len(MOVES) - 1)])),
)


def _size_after(layer: nn.Module, size: Size) -> Size | None:
    """What a layer makes of a picture of `size`; None where it doesn't fit, or would be large."""
    channels, rows, columns = size
    if isinstance(layer, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d):
        step = getattr(layer, "dilation", (1, 1))
        extents = [
            (extent + 2 * layer.padding[axis] - step[axis] * (layer.kernel_size[axis] - 1) - 1) // layer.stride[axis]
            + 1
            for axis, extent in enumerate((rows, columns))
        ]
    elif isinstance(layer, nn.ConvTranspose2d):
        extents = [
            (extent - 1) * layer.stride[axis]
            - 2 * layer.padding[axis]
            + layer.kernel_size[axis]
            + layer.output_padding[axis]
            for axis, extent in enumerate((rows, columns))
        ]
    elif isinstance(layer, Applied) and not layer.name.startswith("activation"):
        x = layer(engine.zeros((1, 1, rows, columns))) if rows > 1 else None
        extents = [0, 0] if x is None else [x.shape[2], x.shape[3]]
    else:
        extents = [rows, columns]
    channels = getattr(layer, "out_channels", channels) * (1 + (isinstance(layer, Skip) and layer.how == "append"))
    fits = min(extents) >= 1 and max(extents) <= LARGEST_EXTENT and channels <= MOST_CHANNELS
    return (channels, extents[0], extents[1]) if fits else None


def train(seed: int, device: Any, dtype: Any) -> tuple[nn.Module, list[np.ndarray], dict[str, np.ndarray]]:
    """The network of `seed` after a few steps: itself, what the steps returned, and its states."""
    random = np.random.default_rng(seed)

    def draw(least: int, most: int) -> int:
        return int(random.integers(least, most + 1))

    with engine.device(device):
        batch, size = draw(2, 4), (draw(1, 17), draw(3, 14), draw(3, 14))
        shape, layers = (batch, *size), []
        for _ in range(draw(2, 8)):
            layer = LAYERS[draw(0, len(LAYERS) - 1)](draw, size)
            after = _size_after(layer, size)
            if after is not None:
                layers.append(layer)
                size = after
        classes = draw(2, 5)
        net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(size[0] * size[1] * size[2], classes))
        net.astype(dtype).set_seed(seed)
        clip = 0.5 if draw(0, 1) else None
        optimizer = (
            lambda: SGD(net, 0.05, momentum=0.9, gradient_clip_norm=clip),
            lambda: Adam(net, 1e-2, gradient_clip_norm=clip),
            lambda: SGD(net, 0.01, momentum=0.5, nesterov=True, weight_decay=1e-3),
        )[draw(0, 2)]()

        def step(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            logits = net(images)
            loss = nn.cross_entropy(logits, labels, label_smoothing=0.1)
            optimizer.minimize(loss)
            return loss, logits, engine.argmax(logits, axis=1)

        traced, returned = engine.trace(step), []
        for _ in range(STEPS):
            images = random.normal(size=shape).astype(dtype.storage)
            returned += [value.numpy() for value in traced(images, random.integers(0, classes, batch))]
        return net, returned, net.state_dict()
