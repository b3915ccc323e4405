"""Pooling layers over the last two axes of x [N, C, H, W]."""

from __future__ import annotations

from trainer import TrainerError, engine
from trainer.engine import Tensor
from trainer.engine.nn.convolution import Pair, pair
from trainer.engine.nn.module import Module


class _Pool(Module):
    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> None:
        self.kernel_size, self.padding = pair(kernel_size), pair(padding)
        self.stride = self.kernel_size if stride is None else pair(stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(_Pool):
    """The maximum of each window; padding never wins. `stride` defaults to the window."""

    def forward(self, x: Tensor) -> Tensor:
        return engine.max_pool(x, self.kernel_size, stride=self.stride, padding=self.padding)


class AvgPool2d(_Pool):
    """The mean of each window, padding counted as zeros. `stride` defaults to the window."""

    def forward(self, x: Tensor) -> Tensor:
        return engine.average_pool(x, self.kernel_size, stride=self.stride, padding=self.padding)


class AdaptiveAvgPool2d(Module):
    """The mean of each of `output_size` equal parts of the picture; H and W must be divisible by it."""

    def __init__(self, output_size: Pair = 1) -> None:
        self.output_size = pair(output_size)

    def forward(self, x: Tensor) -> Tensor:
        (height, width), (rows, columns) = x.shape[-2:], self.output_size
        if height % rows or width % columns:
            raise TrainerError(
                "AdaptiveAvgPool2d makes equal parts only", found=f"{height}x{width} into {rows}x{columns}",
                expected="height and width divisible by output_size",
            )  # fmt: skip
        if (rows, columns) == (1, 1):
            return engine.mean(x, axis=(-2, -1), keepdims=True)
        parts = engine.reshape(x, (*x.shape[:-2], rows, height // rows, columns, width // columns))
        return engine.mean(parts, axis=(-3, -1))

    def extra_repr(self) -> str:
        return f"{self.output_size}"
