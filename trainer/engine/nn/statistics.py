"""Statistics for the normalization layers: accurate, one pass over memory, and cheap to differentiate."""

from __future__ import annotations

from typing import Any, NamedTuple

from trainer.engine import functions
from trainer.engine.functions.shards import shard_gather
from trainer.engine.graph.dtypes import DType, float32
from trainer.engine.sharding import shard_count
from trainer.engine.tensor import Tensor


class Moments(NamedTuple):
    """Mean and variance of x around a pivot; `centered` = x − pivot, `offset` = mean − pivot (zero in value).

    16-bit floats are widened, so all four are float32. `offset` is None if the mean is a constant.
    """

    centered: Tensor
    offset: Tensor | None
    mean: Tensor
    variance: Tensor


def moments(x: Tensor, axes: tuple[int, ...]) -> Moments:
    """Mean and (biased) variance over `axes`, which are kept with extent 1."""
    mean, variance = functions.moments(x, axis=axes, keepdims=True)
    return around(x, mean, variance)


def batch_moments(x: Tensor, axes: tuple[int, ...]) -> Moments:
    """Like `moments`, but over all shards of the batch; x has the rows of one shard.

    All shards have the same number of values. Their moments are merged by Chan's formula (Chan, Golub & LeVeque 1979):
    the variance is the mean of the shards' variances plus the variance of their means.
    """
    count = shard_count()
    if count == 1:
        return moments(x, axes)
    own = functions.stack(functions.moments(x, axis=axes, keepdims=True))
    means, variances = functions.unstack(shard_gather(own), axis=1)
    mean = functions.sum(means, axis=0) / count
    distance = means - mean
    return around(x, mean, functions.sum(variances + distance * distance, axis=0) / count)


def around(x: Tensor, mean: Tensor, variance: Tensor) -> Moments:
    """Returns the moments of x, given its mean and variance.

    For the gradient, the subtracted mean is a constant p: (x − mean)·s = (x − p)·s − (mean − p)·s holds for every
    p, so derivatives of any order are correct, and those with respect to the mean are computed from the small
    statistics, not from all of x.
    """
    pivot = functions.stop_gradient(mean)
    return Moments(wide(x) - pivot, mean - pivot, mean, variance)


def per_channel(values: Tensor | None, x: Tensor) -> Any:
    """Returns `values` [C] reshaped to broadcast along the channels of x [N, C, ...], or None for None."""
    return None if values is None else functions.reshape(values, (1, x.shape[1], *(1,) * (x.ndim - 2)))


def wide(x: Tensor) -> Tensor:
    """Returns `x`, converted to float32 if it has 16 bits."""
    return x.astype(float32) if x.dtype.is_half else x


def standardized(found: Moments, eps: float, weight: Tensor | None, bias: Tensor | None, dtype: DType) -> Tensor:
    """(x − mean) / sqrt(variance + eps) · weight + bias in `dtype`; weight and bias broadcast against the mean."""
    scale = 1 / functions.sqrt(found.variance + eps)
    if weight is not None:
        scale = scale * weight
    shift = None if found.offset is None else -(found.offset * scale)
    if bias is not None:
        shift = bias if shift is None else bias + shift
    y = found.centered * scale
    return (y if shift is None else y + shift).astype(dtype)
