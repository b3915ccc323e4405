"""BatchNorm1d and BatchNorm2d, InstanceNorm1d and InstanceNorm2d, with torch's names and defaults.

Ioffe & Szegedy 2015; Ulyanov, Vedaldi & Lempitsky 2016.
"""

from __future__ import annotations

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.graph.dtypes import int64
from trainer.engine.nn import initializers
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare, declare_buffer
from trainer.engine.nn.statistics import Moments, moments, standardized
from trainer.engine.tensor import Tensor


class _Tracked(Module):
    """What batch and instance norm share: weight, bias, and running statistics of each channel."""

    ranks: tuple[int, ...] = ()

    def __init__(
        self, num_features: int, eps: float, momentum: float | None, affine: bool, track_running_stats: bool
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = declare((num_features,), initializers.ones) if affine else None
        self.bias = declare((num_features,), initializers.zeros) if affine else None
        self.track_running_stats = track_running_stats
        if track_running_stats:
            self.running_mean = declare_buffer((num_features,), initializers.zeros)
            self.running_var = declare_buffer((num_features,), initializers.ones)
            self.num_batches_tracked = declare_buffer((), initializers.zeros, int64)

    def _check(self, x: Tensor) -> None:
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            raise TrainerError(
                f"{self.path or type(self).__name__} got another number of axes or channels",
                found=f"shape {x.shape}",
                expected=f"{' or '.join(map(str, self.ranks))} axes, the second of {self.num_features}",
            )

    def _needs_values(self, count: int, of_what: str) -> None:
        if count < 2:
            raise TrainerError(
                f"{self.path or type(self).__name__} needs more than one value {of_what} in training",
                found=f"{count} value",
            )

    def _running(self, x: Tensor) -> Moments:
        """The running statistics in the place of the batch's, as constants that no gradient reaches."""
        mean, variance = (self._per_channel(state, x) for state in (self.running_mean, self.running_var))
        return Moments(x - mean, None, mean, variance)

    def _per_channel(self, values: Tensor, x: Tensor) -> Tensor:
        return functions.reshape(values, (1, self.num_features, *(1,) * (x.ndim - 2)))

    def _applied(self, found: Moments, x: Tensor) -> Tensor:
        weight, bias = (None if s is None else self._per_channel(s, x) for s in (self.weight, self.bias))
        return standardized(found, self.eps, weight, bias, x.dtype)

    def _move(self, mean: Tensor, variance: Tensor, share: Tensor | float) -> None:
        """The running statistics go `share` of the way to these, each [C]."""
        for state, value in ((self.running_mean, mean), (self.running_var, variance)):
            value = functions.stop_gradient(value)
            if isinstance(share, float):
                state.assign(state * (1 - share) + value.astype(state.dtype) * share)
            else:
                state.assign(state + (value.astype(state.dtype) - state) / share.astype(state.dtype))

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class _BatchNorm(_Tracked):
    """Normalise each channel of x [N, C, ...] by batch statistics in training, by running ones otherwise.

    weight [C] and bias [C] scale and shift the result. In training the running statistics move by `momentum` towards
    the batch's (variance unbiased); `momentum=None` gives their plain average over all batches.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        if not self.training and self.track_running_stats:
            return self._applied(self._running(x), x)
        count = x.size // max(1, self.num_features)
        if self.training:
            self._needs_values(count, "a channel")
        found = moments(x, (0, *range(2, x.ndim)))
        if self.training and self.track_running_stats:
            mean = functions.reshape(found.mean, (self.num_features,))
            variance = functions.reshape(found.variance, (self.num_features,)) * (count / (count - 1))
            tracked = self.num_batches_tracked + 1
            self.num_batches_tracked.assign(tracked)
            self._move(mean, variance, tracked if self.momentum is None else float(self.momentum))
        return self._applied(found, x)


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of x [N, C] or [N, C, L]. See the base for the formula."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of x [N, C, H, W]. See the base for the formula."""

    ranks = (4,)


class _InstanceNorm(_Tracked):
    """Normalise each channel of each sample of x [N, C, ...] by its own statistics.

    With `track_running_stats` running statistics move towards the batch's average of them (variance unbiased) and take
    their place outside training, as in torch, which never counts `num_batches_tracked` here.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        if not self.training and self.track_running_stats:
            return self._applied(self._running(x), x)
        count = x.size // max(1, x.shape[0] * self.num_features)
        if self.training:
            self._needs_values(count, "a channel of a sample")
        found = moments(x, tuple(range(2, x.ndim)))
        if self.training and self.track_running_stats:
            axes = (0, *range(2, x.ndim))
            mean, variance = functions.mean(found.mean, axis=axes), functions.mean(found.variance, axis=axes)
            assert self.momentum is not None
            self._move(mean, variance * (count / (count - 1)), float(self.momentum))
        return self._applied(found, x)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of x [N, C, L]. See the base for the formula."""

    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of x [N, C, H, W]. See the base for the formula."""

    ranks = (4,)
