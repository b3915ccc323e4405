"""What the templates take: products and sums of narrow types are computed in wide ones, by cast nodes that round where
the graph says.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, make_node, topological
from trainer.engine.graph.primitives import TABLE

_WIDE: dict[DType, DType] = {dtypes.bfloat16: dtypes.float32, dtypes.uint8: dtypes.int32, dtypes.bool_: dtypes.int32}
_ACCUMULATING = frozenset(
    {"reduce_sum", "reduce_prod", "scatter_add", "scatter_add_along", "cumulative_sum", "matmul"}
    | {"convolution", "convolution_input_gradient", "convolution_weight_gradient"}
)


def legalise(outputs: Sequence[Node]) -> list[Node]:
    """Graph to graph: accumulate bfloat16 in float32 (rounding once, at the end) and bytes in int32; drop spent
    markers.
    """
    fresh: dict[Node, Node] = {}
    for node in topological(outputs):
        inputs = tuple(fresh[source] for source in node.inputs)
        if node.name == "stop_gradient":
            fresh[node] = inputs[0]
            continue
        wide = _WIDE.get(node.dtype) if node.name in _ACCUMULATING else None
        if wide is None:
            fresh[node] = node if inputs == node.inputs else make_node(node.operation, inputs, node.attributes)
        else:
            widened = tuple(_cast(source, wide) if source.dtype == node.dtype else source for source in inputs)
            fresh[node] = _cast(make_node(node.operation, widened, node.attributes), node.dtype)
    return [fresh[node] for node in outputs]


def _cast(node: Node, dtype: DType) -> Node:
    return node if node.dtype == dtype else make_node(TABLE["cast"], (node,), (dtype,))
