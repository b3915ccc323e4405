"""BatchNorm1d, BatchNorm2d and LayerNorm, with torch's names and defaults.

Ioffe & Szegedy 2015; Ba, Kiros & Hinton 2016.
"""

from __future__ import annotations

from typing import NamedTuple

from trainer import TrainerError, engine
from trainer.engine import Tensor, int64
from trainer.engine.nn import initializers
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare, declare_buffer


class Moments(NamedTuple):
    """Mean and variance of x around a pivot; `centered` = x − pivot, `offset` = mean − pivot (zero in value)."""

    centered: Tensor
    offset: Tensor
    mean: Tensor
    variance: Tensor


def moments(x: Tensor, axes: tuple[int, ...]) -> Moments:
    """Two-pass mean and (biased) variance over `axes`, kept as axes of 1.

    The values are the plain ones: the mean first, then the mean of (x − mean)², good to rounding at mean/std = 1000.
    For the gradient the mean that is taken off is a constant p: var = mean((x − p)²) − (mean − p)² and
    (x − mean)·s = (x − p)·s − (mean − p)·s hold for every p, so derivatives of any order are right, and the ones with
    respect to the mean run over the small statistics and not over all of x.
    """
    mean = engine.mean(x, axis=axes, keepdims=True)
    pivot = engine.stop_gradient(mean)
    centered, offset = x - pivot, mean - pivot
    return Moments(centered, offset, mean, engine.mean(centered * centered, axis=axes, keepdims=True) - offset * offset)


class _BatchNorm(Module):
    """Normalise each channel of x [N, C, ...] by batch statistics in training, by running ones otherwise.

    weight [C] and bias [C] scale and shift the result. In training the running statistics move by `momentum` towards
    the batch's (variance unbiased); `momentum=None` gives their plain average over all batches.
    """

    ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = declare((num_features,), initializers.ones) if affine else None
        self.bias = declare((num_features,), initializers.zeros) if affine else None
        self.track_running_stats = track_running_stats
        if track_running_stats:
            self.running_mean = declare_buffer((num_features,), initializers.zeros)
            self.running_var = declare_buffer((num_features,), initializers.ones)
            self.num_batches_tracked = declare_buffer((), initializers.zeros, int64)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            raise TrainerError(
                f"{self.path or type(self).__name__} got another number of axes or channels",
                found=f"shape {x.shape}",
                expected=f"{' or '.join(map(str, self.ranks))} axes, the second of {self.num_features}",
            )
        per_channel = (1, self.num_features, *(1,) * (x.ndim - 2))
        if not self.training and self.track_running_stats:
            mean, variance = (
                engine.reshape(self.running_mean, per_channel),
                engine.reshape(self.running_var, per_channel),
            )
            centered, offset = x - mean, None
        else:
            axes = (0, *range(2, x.ndim))
            centered, offset, mean, variance = moments(x, axes)
            if self.training and self.track_running_stats:
                self._track(mean, variance, x.size // max(1, self.num_features))
        scale = 1 / engine.sqrt(variance + self.eps)
        if self.weight is not None:
            scale = scale * engine.reshape(self.weight, per_channel)
        shift = None if offset is None else -(offset * scale)
        if self.bias is not None:
            bias = engine.reshape(self.bias, per_channel)
            shift = bias if shift is None else bias + shift
        return centered * scale if shift is None else centered * scale + shift

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        if count < 2:
            raise TrainerError(
                f"{self.path or type(self).__name__} needs more than one value a channel in training",
                found=f"{count} value",
            )
        mean = engine.reshape(engine.stop_gradient(mean), (self.num_features,))
        variance = engine.reshape(engine.stop_gradient(variance), (self.num_features,)) * (count / (count - 1))
        tracked = self.num_batches_tracked + 1
        self.num_batches_tracked.assign(tracked)
        for state, value in ((self.running_mean, mean), (self.running_var, variance)):
            if self.momentum is None:
                state.assign(state + (value - state) / tracked.astype(state.dtype))
            else:
                state.assign(state * (1 - self.momentum) + value.astype(state.dtype) * self.momentum)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of x [N, C] or [N, C, L]. See the base for the formula."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of x [N, C, H, W]. See the base for the formula."""

    ranks = (4,)


class LayerNorm(Module):
    """Normalise over the last axes, whose extents are `normalized_shape`; weight and bias have that shape."""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = declare(self.normalized_shape, initializers.ones) if elementwise_affine else None
        self.bias = declare(self.normalized_shape, initializers.zeros) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        count = len(self.normalized_shape)
        if x.shape[x.ndim - count :] != self.normalized_shape:
            raise TrainerError(
                f"{self.path or 'LayerNorm'} got other extents",
                found=f"shape {x.shape}",
                expected=f"[..., {', '.join(map(str, self.normalized_shape))}]",
            )
        centered, offset, _, variance = moments(x, tuple(range(x.ndim - count, x.ndim)))
        scale = 1 / engine.sqrt(variance + self.eps)
        y = centered * scale - offset * scale
        if self.weight is not None:
            y = y * self.weight
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"
