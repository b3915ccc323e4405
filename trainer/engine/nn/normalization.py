"""Batch and instance normalization over one, two and three spatial axes, with torch's names and defaults.

Ioffe & Szegedy 2015; Ulyanov, Vedaldi & Lempitsky 2016.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.functions.shards import total
from trainer.engine.graph.dtypes import int64
from trainer.engine.nn import initializers
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare, declare_buffer
from trainer.engine.nn.statistics import Moments, batch_moments, moments, per_channel, standardized
from trainer.engine.sharding import shard_count
from trainer.engine.tensor import Tensor


class _Tracked(Module):
    """Base of batch and instance norm: weight, bias, and running statistics of each channel."""

    ranks: tuple[int, ...] = ()
    first_axes: tuple[int, ...] = ()
    """Axes of the statistics, in addition to the spatial axes."""
    _track: Callable[[Moments, float], None]
    """Updates the running statistics with those of a batch; the factor makes the variance unbiased."""

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
        expected = f"{' or '.join(map(str, self.ranks))} axes, the second of {self.num_features}"
        self._check_shape(x.ndim in self.ranks and x.shape[1] == self.num_features, x, expected)
        if self.track_running_stats and not self.training:
            mean, variance = per_channel(self.running_mean, x), per_channel(self.running_var, x)
            return self._applied(Moments(x - mean, None, mean, variance), x)  # constants: they receive no gradient
        axes = (*self.first_axes, *range(2, x.ndim))
        shards = shard_count() if self.first_axes else 1
        count = shards * math.prod(x.shape[axis] for axis in axes)
        if self.training and (count < 2 or not x.size):
            raise TrainerError(
                f"{self.path or type(self).__name__} needs more than one value per channel in training",
                found=f"shape {x.shape}: {count} along axes {list(axes)}",
            )
        found = batch_moments(x, axes) if self.first_axes else moments(x, axes)
        if self.training and self.track_running_stats:
            self._track(found, count / (count - 1))
        return self._applied(found, x)

    def _applied(self, found: Moments, x: Tensor) -> Tensor:
        return standardized(found, self.eps, per_channel(self.weight, x), per_channel(self.bias, x), x.dtype)

    def _move(self, mean: Tensor, variance: Tensor, share: Tensor | float) -> None:
        """Moves the running statistics toward these, each [C], by `share`, or by 1 / `share` if it is a tensor."""
        for state, value in ((self.running_mean, mean), (self.running_var, variance)):
            value = functions.stop_gradient(value)
            if isinstance(share, float):
                state.assign(state * (1 - share) + value.astype(state.dtype) * share)
            else:
                state.assign(state + (value.astype(state.dtype) - state) / share.astype(state.dtype))

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class _BatchNorm(_Tracked):
    """Normalizes each channel of x [N, C, ...] by batch statistics in training, by running statistics in evaluation.

    weight [C] and bias [C] scale and shift the result. In training, the running statistics move by `momentum` toward
    those of the batch (unbiased variance); `momentum=None` averages over all batches equally.
    """

    first_axes = (0,)

    def _track(self, found: Moments, correction: float) -> None:
        mean = functions.reshape(found.mean, (self.num_features,))
        variance = functions.reshape(found.variance, (self.num_features,)) * correction
        tracked = self.num_batches_tracked + 1
        self.num_batches_tracked.assign(tracked)
        self._move(mean, variance, tracked if self.momentum is None else float(self.momentum))


class BatchNorm1d(_BatchNorm):
    """Batch normalization of x [N, C] or [N, C, L]. See the base for the formula."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of x [N, C, H, W]. See the base for the formula."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of x [N, C, D, H, W]. See the base for the formula."""

    ranks = (5,)


class _InstanceNorm(_Tracked):
    """Normalizes each channel of each sample of x [N, C, ...] by its own statistics.

    With `track_running_stats`, running statistics move toward the average over the batch (unbiased variance) and are
    used in evaluation. As in torch, `num_batches_tracked` stays 0.
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _track(self, found: Moments, correction: float) -> None:
        axes = (0, *range(2, found.mean.ndim))
        mean, variance = functions.mean(found.mean, axis=axes), functions.mean(found.variance, axis=axes)
        shards = shard_count()
        mean, variance = total(mean) / shards, total(variance) / shards
        assert self.momentum is not None
        self._move(mean, variance * correction, float(self.momentum))


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of x [N, C, L]. See the base for the formula."""

    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of x [N, C, H, W]. See the base for the formula."""

    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of x [N, C, D, H, W]. See the base for the formula."""

    ranks = (5,)
