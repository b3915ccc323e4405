"""Values that cross the shards of a batch or the processes that compute them.

The primitives are not in `TABLE` or `BUNDLES`: no program file holds them. A device sums over the shards of a program
(`program.shards`); a step is split into programs where values come from other processes (`tracing.sharded`).
"""

from __future__ import annotations

from trainer.engine.graph.node import Node, Primitive, make_node
from trainer.engine.graph.primitives.table import NUMERIC, first_dtype, first_shape

SHARD_SUM = Primitive("shard_sum", "reduction", first_shape, first_dtype("shard_sum", NUMERIC), lambda attributes, x: x)

FROM_PROCESS = Primitive(
    "from_process",
    "movement",
    first_shape,
    lambda inputs, attributes: inputs[0].dtype,
    lambda attributes, x, needed: x,
    ("process",),
)
CROSSING = (SHARD_SUM, FROM_PROCESS)


def shard_sum(x: Node) -> Node:
    """The sum of `x` over all shards: one balanced tree over their numbers, the lower operand first."""
    return make_node(SHARD_SUM, (x,))


def from_process(x: Node, needed: Node, process: int) -> Node:
    """The value of `x` in one process, for all processes; all of them compute the sums over shards that `needed`
    depends on. `x` is the same in all shards; in other processes it only gives shape and dtype.
    """
    return make_node(FROM_PROCESS, (x, needed), (process,))
