"""Pooling layers of one, two and three spatial axes, with torch's names and defaults."""

from __future__ import annotations

import numpy as np

from trainer.engine import functions
from trainer.engine.functions.axes import each_axis
from trainer.engine.functions.convolution import averaged, resampled
from trainer.engine.nn.convolution import Extents, check_input
from trainer.engine.nn.module import Module
from trainer.engine.nn.resampling import area, parts_of
from trainer.engine.tensor import Tensor

Parts = int | tuple[int | None, ...] | None


class _Pool(Module):
    rank: int

    def __init__(self, kernel_size: Extents, stride: Extents | None, padding: Extents, ceil_mode: bool) -> None:
        self.kernel_size, self.padding = self._each("kernel_size", kernel_size), self._each("padding", padding)
        self.stride = self.kernel_size if stride is None else self._each("stride", stride)
        self.ceil_mode = ceil_mode

    def _each(self, name: str, value: Extents) -> tuple[int, ...]:
        return each_axis(type(self).__name__, name, value, self.rank)

    def _extra(self, x: Tensor, dilation: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Padding (before, after) of each axis; `ceil_mode` adds the overhang of windows that begin in the image."""
        check_input(self, x, self.rank)
        result = []
        sizes = (x.shape[2:], self.kernel_size, self.stride, self.padding, dilation)
        for extent, size, step, padding, spacing in zip(*sizes, strict=True):
            span = spacing * (size - 1) + 1
            left = (extent + 2 * padding - span) % step if extent + 2 * padding >= span else 0
            more = step - left if self.ceil_mode and left else 0
            if more and (extent + 2 * padding - span) // step * step + step >= extent + padding:
                more = 0  # the window would begin in the padding
            result.append((padding, padding + more))
        return tuple(result)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPool(_Pool):
    """The maximum of each window; padding is ignored. `stride` defaults to the window size.

    With `ceil_mode`, a last window that begins inside the image counts even if it extends beyond the image.
    """

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        dilation: Extents = 1,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = self._each("dilation", dilation)

    def forward(self, x: Tensor) -> Tensor:
        padding = self._extra(x, self.dilation)
        return functions.max_pool(x, self.kernel_size, stride=self.stride, padding=padding, dilation=self.dilation)


class MaxPool1d(_MaxPool):
    """The maximum of each window of x [N, C, L]; arguments as in `MaxPool2d`."""

    rank = 1


class MaxPool2d(_MaxPool):
    """The maximum of each window of x [N, C, H, W]; padding is ignored. `stride` defaults to the window size.

    With `ceil_mode`, a last window that begins inside the image counts even if it extends beyond the image.
    """

    rank = 2


class MaxPool3d(_MaxPool):
    """The maximum of each window of x [N, C, D, H, W]; arguments as in `MaxPool2d`."""

    rank = 3


class _AvgPool(_Pool):
    """The mean of each window.

    `stride` defaults to the window size. Padding counts as zeros with `count_include_pad` and is excluded without it;
    padding added by `ceil_mode` is always excluded.
    """

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        padding = self._extra(x, (1,) * self.rank)
        counted = [(own, own) if self.count_include_pad else (0, 0) for own in self.padding]
        return averaged(x, self.kernel_size, self.stride, padding, counted)


class AvgPool1d(_AvgPool):
    """The mean of each window of x [N, C, L]; arguments as in `AvgPool2d`."""

    rank = 1


class AvgPool2d(_AvgPool):
    """The mean of each window of x [N, C, H, W].

    `stride` defaults to the window size. Padding counts as zeros with `count_include_pad` and is excluded without it;
    padding added by `ceil_mode` is always excluded.
    """

    rank = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of x [N, C, D, H, W]; arguments as in `AvgPool2d`."""

    rank = 3


class _AdaptivePool(Module):
    """Part i of n along an axis of H pixels spans floor(i·H / n) to ceil((i + 1)·H / n)."""

    rank: int

    def __init__(self, output_size: Parts = 1) -> None:
        self.output_size = output_size if isinstance(output_size, tuple) else (output_size,) * self.rank

    def _parts(self, x: Tensor) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """Returns the number of parts along each axis, and the extents of a part if all are equal, or None."""
        check_input(self, x, self.rank)
        self._check_shape(0 not in x.shape[2:], x, "at least one pixel")
        spatial = x.shape[2:]
        parts = tuple(own if given is None else given for given, own in zip(self.output_size, spatial, strict=True))
        is_even = all(own % count == 0 for own, count in zip(spatial, parts, strict=True))
        return parts, tuple(own // count for own, count in zip(spatial, parts, strict=True)) if is_even else None

    def extra_repr(self) -> str:
        return f"{self.output_size}"


class _AdaptiveAvgPool(_AdaptivePool):
    def forward(self, x: Tensor) -> Tensor:
        parts, window = self._parts(x)
        if set(parts) == {1}:
            return functions.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)
        if window is not None:
            return functions.average_pool(x, window)
        return resampled(x, [(own, area(own, count)) for own, count in zip(x.shape[2:], parts, strict=True)])


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The mean of each of `output_size` parts of x [N, C, L]; None keeps the axis as it is."""

    rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The mean of each of `output_size` parts of x [N, C, H, W]; None keeps an axis as it is."""

    rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The mean of each of `output_size` parts of x [N, C, D, H, W]; None keeps an axis as it is."""

    rank = 3


class _AdaptiveMaxPool(_AdaptivePool):
    """If the parts differ in size, equal maxima share the gradient."""

    def forward(self, x: Tensor) -> Tensor:
        parts, window = self._parts(x)
        if window is not None:
            return functions.max_pool(x, window)
        for axis, count in enumerate(parts, start=2):
            places = _places(x.shape[axis], count)
            x = functions.max(_taken(x, places, axis), axis=axis + 1)
        return x


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The maximum of each of `output_size` parts of x [N, C, L]; None keeps the axis as it is."""

    rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The maximum of each of `output_size` parts of x [N, C, H, W]; None keeps an axis as it is.

    If the parts differ in size, equal maxima share the gradient.
    """

    rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The maximum of each of `output_size` parts of x [N, C, D, H, W]; None keeps an axis as it is."""

    rank = 3


def _places(extent: int, parts: int) -> np.ndarray:
    """Returns the positions of each part [parts, longest]; shorter parts repeat their last position."""
    first, stop = np.array(parts_of(extent, parts)).T
    places = first[:, None] + np.arange((stop - first).max())
    return np.minimum(places, stop[:, None] - 1)


def _taken(x: Tensor, places: np.ndarray, axis: int) -> Tensor:
    """Returns `x` with `axis` replaced by [parts, longest], the slices at `places`."""
    flat = functions.take(x, places.ravel(), axis=axis)
    return functions.reshape(flat, (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))
