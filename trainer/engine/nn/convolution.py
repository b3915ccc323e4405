"""Conv2d and ConvTranspose2d, with torch's names, shapes and defaults."""

from __future__ import annotations

import math

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.nn.initializers import fan_in_bias, kaiming_uniform
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare
from trainer.engine.nn.statistics import per_channel
from trainer.engine.tensor import Tensor

Pair = int | tuple[int, int]


def pair(value: Pair) -> tuple[int, int]:
    """`value` for both spatial axes."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


class _Convolution(Module):
    is_transposed = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Pair, stride: Pair = 1, padding: Pair = 0,
        dilation: Pair = 1, groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise TrainerError(
                f"{type(self).__name__}: channels can't be split into groups",
                found=f"in_channels {in_channels}, out_channels {out_channels}, groups {groups}",
                expected="both divisible by groups",
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.padding, self.dilation = map(pair, (kernel_size, stride, padding, dilation))
        rows, columns = (in_channels, out_channels) if self.is_transposed else (out_channels, in_channels)
        weight_shape = (rows, columns // groups, *self.kernel_size)
        self.weight = declare(weight_shape, kaiming_uniform(math.sqrt(5)))
        self.bias = declare((out_channels,), fan_in_bias(weight_shape)) if bias else None

    def _with_bias(self, y: Tensor) -> Tensor:
        return y if self.bias is None else (y + per_channel(self.bias, y)).astype(y.dtype)

    def _check(self, x: Tensor) -> None:
        self._check_shape(x.ndim == 4 and x.shape[1] == self.in_channels, x, f"[N, {self.in_channels}, H, W]")

    def extra_repr(self) -> str:
        window = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return f"{self.in_channels}, {self.out_channels}, {window}"


class Conv2d(_Convolution):
    """Convolution of x [N, C, H, W] with weight [K, C/groups, R, S] and bias [K]."""

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        y = functions.convolution(
            x, self.weight, stride=self.stride, padding=self.padding, dilation=self.dilation, groups=self.groups
        )
        return self._with_bias(y)


class ConvTranspose2d(_Convolution):
    """Transposed convolution of x [N, C, H, W] with weight [C, K/groups, R, S] and bias [K].

    The result's extent is (H − 1)·stride − 2·padding + dilation·(R − 1) + output_padding + 1.
    """

    is_transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Pair, stride: Pair = 1, padding: Pair = 0,
        output_padding: Pair = 0, groups: int = 1, bias: bool = True, dilation: Pair = 1,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.output_padding = pair(output_padding)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        y = functions.convolution_transpose(
            x, self.weight, stride=self.stride, padding=self.padding, output_padding=self.output_padding,
            dilation=self.dilation, groups=self.groups,
        )  # fmt: skip
        return self._with_bias(y)
