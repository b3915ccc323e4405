"""The sum over the shards of a batch.

The primitive is in no table: a step with shards is split at it into programs (`tracing.sharded`), which no device
computes and no file of a program holds.
"""

from __future__ import annotations

from trainer.engine.graph.node import Node, Primitive, make_node
from trainer.engine.graph.primitives.table import NUMERIC, first_dtype, first_shape

SHARD_SUM = Primitive("shard_sum", "reduction", first_shape, first_dtype("shard_sum", NUMERIC), lambda attributes, x: x)


def shard_sum(x: Node) -> Node:
    """The sum of `x` over all shards: one balanced tree over their numbers, the lower operand first."""
    return make_node(SHARD_SUM, (x,))
