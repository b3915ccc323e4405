"""Convolutions and their transposes over one, two and three spatial axes, with torch's names, shapes and defaults."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.functions.axes import each_axis
from trainer.engine.functions.convolution import named_padding
from trainer.engine.nn.initializers import fan_in_bias, kaiming_uniform
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare
from trainer.engine.nn.statistics import per_channel
from trainer.engine.tensor import Tensor

Extents = int | tuple[int, ...]
"""One number for all spatial axes, or one for each."""

AXES = {1: "[N, {}, L]", 2: "[N, {}, H, W]", 3: "[N, {}, D, H, W]"}
"""Input shapes by number of spatial axes, for error messages."""


def check_input(layer: Module, x: Tensor, rank: int, channels: int | str = "C") -> None:
    """Raises an error unless x has `rank` spatial axes and, if `channels` is a number, that many channels."""
    holds = x.ndim == rank + 2 and channels in ("C", x.shape[1])
    layer._check_shape(holds, x, AXES[rank].format(channels))


class _Convolution(Module):
    rank: int
    is_transposed = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Extents, stride: Extents = 1,
        padding: Extents | Literal["same", "valid"] = 0, dilation: Extents = 1, groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise TrainerError(
                f"{type(self).__name__}: channels can't be split into groups",
                found=f"in_channels {in_channels}, out_channels {out_channels}, groups {groups}",
                expected="both divisible by groups",
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = self._each("kernel_size", kernel_size), self._each("stride", stride)
        self.dilation = self._each("dilation", dilation)
        if isinstance(padding, str) and not self.is_transposed:
            ends = named_padding(type(self).__name__, padding, self.kernel_size, self.stride, self.dilation)
            self.padding = tuple(before for before, _ in ends)
        else:
            self.padding = self._each("padding", padding)
        rows, columns = (in_channels, out_channels) if self.is_transposed else (out_channels, in_channels)
        weight_shape = (rows, columns // groups, *self.kernel_size)
        self.weight = declare(weight_shape, kaiming_uniform(math.sqrt(5)))
        self.bias = declare((out_channels,), fan_in_bias(weight_shape)) if bias else None

    def _each(self, name: str, value: Any) -> tuple[int, ...]:
        return each_axis(type(self).__name__, name, value, self.rank)

    def _applied(self, convolve: Callable[..., Tensor], x: Tensor, **further: Any) -> Tensor:
        check_input(self, x, self.rank, self.in_channels)
        y = convolve(
            x, self.weight, stride=self.stride, padding=self.padding, dilation=self.dilation, groups=self.groups,
            **further,
        )  # fmt: skip
        return y if self.bias is None else (y + per_channel(self.bias, y)).astype(y.dtype)

    def extra_repr(self) -> str:
        window = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return f"{self.in_channels}, {self.out_channels}, {window}"


class _Direct(_Convolution):
    def forward(self, x: Tensor) -> Tensor:
        return self._applied(functions.convolution, x)


class Conv1d(_Direct):
    """Convolution of x [N, C, L] with weight [K, C/groups, R] and bias [K]. `padding` may be "same" or "valid"."""

    rank = 1


class Conv2d(_Direct):
    """Convolution of x [N, C, H, W] with weight [K, C/groups, R, S] and bias [K].

    `padding` is one number for both axes, one for each, "valid" (none), or "same", which keeps the extents and requires
    stride 1 and, along each axis, an odd window or an even dilation.
    """

    rank = 2


class Conv3d(_Direct):
    """Convolution of x [N, C, D, H, W] with weight [K, C/groups, T, R, S] and bias [K].

    `padding` is as in `Conv2d`.
    """

    rank = 3


class _Transposed(_Convolution):
    """The output extent along each axis is (H − 1)·stride − 2·padding + dilation·(R − 1) + output_padding + 1."""

    is_transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Extents, stride: Extents = 1, padding: Extents = 0,
        output_padding: Extents = 0, groups: int = 1, bias: bool = True, dilation: Extents = 1,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.output_padding = self._each("output_padding", output_padding)

    def forward(self, x: Tensor) -> Tensor:
        return self._applied(functions.convolution_transpose, x, output_padding=self.output_padding)


class ConvTranspose1d(_Transposed):
    """Transposed convolution of x [N, C, L] with weight [C, K/groups, R] and bias [K]. See the base for extents."""

    rank = 1


class ConvTranspose2d(_Transposed):
    """Transposed convolution of x [N, C, H, W] with weight [C, K/groups, R, S] and bias [K].

    The output extent is (H − 1)·stride − 2·padding + dilation·(R − 1) + output_padding + 1.
    """

    rank = 2


class ConvTranspose3d(_Transposed):
    """Transposed convolution of x [N, C, D, H, W] with weight [C, K/groups, T, R, S] and bias [K]."""

    rank = 3
