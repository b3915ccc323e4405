"""Pooling layers over the last two axes of x [N, C, H, W], with torch's names and defaults."""

from __future__ import annotations

import numpy as np

from trainer.engine import functions
from trainer.engine.functions.convolution import averaged
from trainer.engine.nn.convolution import Pair, pair
from trainer.engine.nn.module import Module
from trainer.engine.nn.resampling import area, parts_of
from trainer.engine.tensor import Tensor


class _Pool(Module):
    def __init__(self, kernel_size: Pair, stride: Pair | None, padding: Pair, ceil_mode: bool) -> None:
        self.kernel_size, self.padding, self.ceil_mode = pair(kernel_size), pair(padding), ceil_mode
        self.stride = self.kernel_size if stride is None else pair(stride)

    def _extra(self, x: Tensor, dilation: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        """Padding (before, after) of each axis: with `ceil_mode` windows that begin inside the picture go beyond it."""
        result = []
        sizes = (x.shape[-2:], self.kernel_size, self.stride, self.padding, dilation)
        for extent, size, step, padding, spacing in zip(*sizes, strict=True):
            reach = spacing * (size - 1) + 1
            left = (extent + 2 * padding - reach) % step if extent + 2 * padding >= reach else 0
            more = step - left if self.ceil_mode and left else 0
            if more and (extent + 2 * padding - reach) // step * step + step >= extent + padding:
                more = 0  # the window would begin in the padding
            result.append((padding, padding + more))
        return tuple(result)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(_Pool):
    """The maximum of each window; padding never wins. `stride` defaults to the window.

    With `ceil_mode` a last window that begins inside the picture counts even where it reaches beyond.
    """

    def __init__(
        self,
        kernel_size: Pair,
        stride: Pair | None = None,
        padding: Pair = 0,
        dilation: Pair = 1,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = pair(dilation)

    def forward(self, x: Tensor) -> Tensor:
        padding = self._extra(x, self.dilation)
        return functions.max_pool(x, self.kernel_size, stride=self.stride, padding=padding, dilation=self.dilation)


class AvgPool2d(_Pool):
    """The mean of each window. `stride` defaults to the window.

    Padding counts as zeros, or not at all without `count_include_pad`; what `ceil_mode` adds never counts.
    """

    def __init__(
        self,
        kernel_size: Pair,
        stride: Pair | None = None,
        padding: Pair = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        padding = self._extra(x, (1, 1))
        counted = [(own, own) if self.count_include_pad else (0, 0) for own in self.padding]
        return averaged(x, self.kernel_size, self.stride, padding, counted)


class _AdaptivePool(Module):
    """Part i of n of an axis of H places goes from floor(i·H / n) to ceil((i + 1)·H / n)."""

    def __init__(self, output_size: int | tuple[int | None, int | None] | None = 1) -> None:
        self.output_size = output_size if isinstance(output_size, tuple) else (output_size, output_size)

    def _parts(self, x: Tensor) -> tuple[int, int]:
        self._check_shape(x.ndim == 4 and 0 not in x.shape[-2:], x, "[N, C, H, W] of at least one pixel")
        rows, columns = (
            own if parts is None else parts for parts, own in zip(self.output_size, x.shape[-2:], strict=True)
        )
        return rows, columns

    def extra_repr(self) -> str:
        return f"{self.output_size}"


class AdaptiveAvgPool2d(_AdaptivePool):
    """The mean of each of `output_size` parts of the picture; None keeps an axis as it is."""

    def forward(self, x: Tensor) -> Tensor:
        (rows, columns), (height, width) = self._parts(x), x.shape[-2:]
        if (rows, columns) == (1, 1):
            return functions.mean(x, axis=(-2, -1), keepdims=True)
        if height % rows == 0 and width % columns == 0:
            return functions.average_pool(x, (height // rows, width // columns))
        return functions.resample(x, (height, area(height, rows)), (width, area(width, columns)))


class AdaptiveMaxPool2d(_AdaptivePool):
    """The maximum of each of `output_size` parts of the picture; None keeps an axis as it is.

    Where the parts are not equal, the gradient is shared among equal maxima.
    """

    def forward(self, x: Tensor) -> Tensor:
        (rows, columns), (height, width) = self._parts(x), x.shape[-2:]
        if height % rows == 0 and width % columns == 0:
            return functions.max_pool(x, (height // rows, width // columns))
        for axis, parts in ((2, rows), (3, columns)):
            places = _places(x.shape[axis], parts)
            x = functions.max(_taken(x, places, axis), axis=axis + 1)
        return x


def _places(extent: int, parts: int) -> np.ndarray:
    """The places of each part [parts, longest], the last one repeated up to the longest."""
    first, stop = np.array(parts_of(extent, parts)).T
    places = first[:, None] + np.arange((stop - first).max())
    return np.minimum(places, stop[:, None] - 1)


def _taken(x: Tensor, places: np.ndarray, axis: int) -> Tensor:
    """Slices of `x` at `places` [parts, longest] in the place of `axis`."""
    flat = functions.take(x, places.ravel(), axis=axis)
    return functions.reshape(flat, (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))
