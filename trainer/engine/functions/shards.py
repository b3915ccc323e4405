"""Functions that communicate across the shards of a batch."""

from __future__ import annotations

from trainer.engine import sharding
from trainer.engine.functions.creation import arange
from trainer.engine.functions.elementwise import where
from trainer.engine.functions.movement import reshape
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import bool_, float32, int32
from trainer.engine.tensor import Tensor, wrapped


def shard_sum(x: Tensor) -> Tensor:
    """The sum of `x` over the shards of the batch; `x` itself in a step without shards.

    Inside a traced step with `shards`, a value computed from rows of the batch belongs to one shard. Its sum over all
    shards is the same in each shard: a balanced tree over the shard numbers adds the lower operand first, in the
    shape and dtype of `x` (16-bit floats are summed in float32, bool as int32). The gradient is the sum of the
    cotangents over the shards. In a task's training or validation step, shards of padding alone are left out.

    Raises:
        TrainerError: x is complex.
    """
    is_counted = sharding.counted()
    return total(x if is_counted is None else where(wrapped(is_counted), x, 0))


def total(x: Tensor) -> Tensor:
    """`shard_sum` that includes shards of padding alone."""
    if sharding.shard_count() == 1:
        return x
    if x.dtype is bool_:
        x = x.astype(int32)
    wide = x.astype(float32) if x.dtype.is_half else x
    found = wrapped(p.shard_sum(wide.node), wide)
    return found.astype(x.dtype) if x.dtype.is_half else found


def shard_gather(x: Tensor) -> Tensor:
    """The values of `x` in all shards, in order: [shards, ...], or [1, ...] in a step without shards.

    The bits of each shard's value are kept, except that -0 becomes 0.
    """
    count = sharding.shard_count()
    one = reshape(x, (1, *x.shape))
    if count == 1:
        return one
    is_own = arange(count, dtype=int32) == wrapped(sharding.shard_number())
    return total(where(reshape(is_own, (count, *(1,) * x.ndim)), one, 0))


def from_process(x: Tensor, needed: Tensor, process: int) -> Tensor:
    """Returns, in all processes, the value that `x` has in one process of the training.

    Args:
        x: the same in all shards. In other processes it only gives shape and dtype, and is not computed.
        needed: what `x` is computed from in its process; all processes compute the sums over shards that it depends on.
        process: the number of the process.
    """
    return wrapped(p.from_process(x.node, needed.node, process), x)
