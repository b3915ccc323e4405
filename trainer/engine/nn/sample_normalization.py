"""LayerNorm, GroupNorm and RMSNorm, which normalize each sample separately, with torch's names and defaults.

Ba, Kiros & Hinton 2016; Wu & He 2018; Zhang & Sennrich 2019.
"""

from __future__ import annotations

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.graph.dtypes import float64
from trainer.engine.nn import initializers
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare
from trainer.engine.nn.statistics import around, moments, per_channel, standardized, wide
from trainer.engine.tensor import Tensor


class _OverLastAxes(Module):
    """Normalizes over the last axes, whose extents are `normalized_shape`."""

    def __init__(self, normalized_shape: int | tuple[int, ...], elementwise_affine: bool) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.weight = declare(self.normalized_shape, initializers.ones) if elementwise_affine else None

    def _axes(self, x: Tensor) -> tuple[int, ...]:
        count = len(self.normalized_shape)
        expected = f"[..., {', '.join(map(str, self.normalized_shape))}]"
        self._check_shape(x.shape[x.ndim - count :] == self.normalized_shape, x, expected)
        return tuple(range(x.ndim - count, x.ndim))


class LayerNorm(_OverLastAxes):
    """Normalizes over the last axes, whose extents are `normalized_shape`; weight and bias have this shape."""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(normalized_shape, elementwise_affine)
        self.eps = eps
        self.bias = declare(self.normalized_shape, initializers.zeros) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        # weight and bias vary along the row: they are applied after the scaling, which is one number per row
        y = standardized(moments(x, self._axes(x)), self.eps, None, None, wide(x).dtype)
        if self.weight is not None:
            y = y * self.weight
        return (y if self.bias is None else y + self.bias).astype(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(_OverLastAxes):
    """x / sqrt(mean(x²) + eps) · weight over the last axes; `eps` defaults to the distance from 1 to the next float."""

    def __init__(
        self, normalized_shape: int | tuple[int, ...], eps: float | None = None, elementwise_affine: bool = True
    ) -> None:
        super().__init__(normalized_shape, elementwise_affine)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        axes, values = self._axes(x), wide(x)
        eps = self.eps if self.eps is not None else 2.0**-52 if values.dtype is float64 else 2.0**-23
        y = values * (1 / functions.sqrt(functions.mean(values * values, axis=axes, keepdims=True) + eps))
        return (y if self.weight is None else y * self.weight).astype(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Normalizes each of `num_groups` groups of consecutive channels of each sample of x [N, C, ...].

    weight [C] and bias [C] scale and shift the result. Statistics are computed for each channel and merged by Chan's
    formula, so no memory layout needs a copy.
    """

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise TrainerError(
                "GroupNorm: channels can't be split into equal groups",
                found=f"{num_channels} channels, {num_groups} groups",
                expected="num_channels divisible by num_groups",
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = declare((num_channels,), initializers.ones) if affine else None
        self.bias = declare((num_channels,), initializers.zeros) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        self._check_shape(x.ndim > 1 and x.shape[1] == self.num_channels, x, f"[N, {self.num_channels}, ...]")
        mean, variance = self._of_groups(x)
        weight, bias = (per_channel(state, x) for state in (self.weight, self.bias))
        return standardized(around(x, mean, variance), self.eps, weight, bias, x.dtype)

    def _of_groups(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns mean and variance [N, C, 1, ...] of the group of each channel."""
        grouped = (x.shape[0], self.num_groups, self.num_channels // self.num_groups)
        if x.ndim == 2:
            mean, variance = functions.moments(functions.reshape(x, grouped), axis=2, keepdims=True)
        else:
            means, variances = functions.moments(x, axis=tuple(range(2, x.ndim)))
            means, variances = functions.reshape(means, grouped), functions.reshape(variances, grouped)
            mean, between = functions.moments(means, axis=2, keepdims=True)
            variance = functions.mean(variances, axis=2, keepdims=True) + between
        every = (*x.shape[:2], *(1,) * (x.ndim - 2))
        spread = (functions.broadcast_to(each, grouped) for each in (mean, variance))
        mean, variance = (functions.reshape(each, every) for each in spread)
        return mean, variance

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
