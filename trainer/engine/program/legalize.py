"""Rewrites a graph for the templates: products and sums of narrow types are computed in wide ones, with cast nodes
where the graph rounds.

A bfloat16 contraction becomes one of precision bfloat16 with bfloat16 operands and an even number of terms
(`kernels/products.py`), or, where pairs are impossible, a float32 contraction of the same values. A float16 contraction
always becomes a float32 one: the products of two float16 values are exact in float32.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.common import Common
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, make_node
from trainer.engine.graph.rewrite import on, rebuilt
from trainer.engine.program.work import SCANS, SCATTERS

_WIDE: dict[DType, DType] = {
    dtypes.bfloat16: dtypes.float32,
    dtypes.float16: dtypes.float32,
    **dict.fromkeys(
        (dtypes.bool_, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.int8, dtypes.int16), dtypes.int32
    ),
    dtypes.uint64: dtypes.int64,
}
_CONTRACTIONS = frozenset({"matmul", "convolution", "convolution_input_gradient", "convolution_weight_gradient"})
_EXTREMA = frozenset({"scatter_max_along", "scatter_min_along"})
_ACCUMULATING = _CONTRACTIONS | {"reduce_sum", "reduce_prod", "scatter_add", "gather_sum", *SCATTERS, *SCANS} - _EXTREMA
_REARRANGING = frozenset({"reshape", "permute", "expand"})
_PAIRED_AXES = {"matmul": (-1, -2), "convolution": (1, 1), "convolution_input_gradient": (1, 0)}
"""The axis of each operand along which pairs are summed."""


def legalize(outputs: Sequence[Node], wide_groups: Sequence[int] = (), *, pairs: bool = True) -> list[Node]:
    """Returns the graph with sums of 16-bit floats in float32 and sums of bytes in int32, without `stop_gradient`.

    Convolutions with `wide_groups` multiply in float32. Without `pairs`, kernels take 16-bit operands directly: no axis
    is padded to an even extent, and no operand is widened.
    """
    common = Common()
    return rebuilt(outputs, lambda node, inputs: common.of(_legal(node, inputs, wide_groups, pairs)))


def _legal(node: Node, inputs: tuple[Node, ...], wide_groups: Sequence[int], pairs: bool) -> Node:
    """The legal form of `node` on `inputs`, which are legal."""
    if node.name == "stop_gradient":
        return inputs[0]
    if node.name in _CONTRACTIONS and (node.dtype.is_half or node.attribute("precision") is not None):
        return _cast(_of_half(node, inputs, wide_groups, pairs), node.dtype)
    if node.dtype in _WIDE and (node.name in _ACCUMULATING or (node.name in _EXTREMA and node.dtype.is_half)):
        wide = _WIDE[node.dtype]
        widened = tuple(_cast(source, wide) if source.dtype is node.dtype else source for source in inputs)
        return _cast(make_node(node.operation, widened, node.attributes), node.dtype)
    return on(node, inputs)


def _of_half(node: Node, inputs: tuple[Node, ...], wide_groups: Sequence[int], pairs: bool) -> Node:
    """The contraction of 16-bit operands with float32 sums; with `pairs`, bfloat16 terms are summed in pairs."""
    precision: DType | None = node.dtype if node.dtype.is_half else node.attribute("precision")
    assert precision is not None
    operands = [narrowed(source, precision) for source in inputs]
    groups = 1 if node.name == "matmul" else node.attribute("groups")
    if not pairs:
        pass
    elif precision is dtypes.float16:
        operands, precision = [_cast(source, dtypes.float32) for source in operands], None
    elif node.name in _PAIRED_AXES:
        axes = _PAIRED_AXES[node.name]
        extent = operands[0].shape[axes[0]] // groups
        if extent % 2 and groups == 1:
            operands = [_one_more(source, axis % source.ndim) for source, axis in zip(operands, axes, strict=True)]
        elif extent % 2:
            operands, precision = [_cast(source, dtypes.float32) for source in operands], None
    if pairs and precision is not None and groups > 1 and _has_groups_of(wide_groups, node, operands):
        operands, precision = [_cast(source, dtypes.float32) for source in operands], None
    place = node.operation.attributes.index("precision")
    attributes = (*node.attributes[:place], precision, *node.attributes[place + 1 :])
    return make_node(node.operation, tuple(operands), attributes)


def _has_groups_of(sizes: Sequence[int], node: Node, operands: Sequence[Node]) -> bool:
    """Whether each group of a convolution has a number of channels in `sizes`, and the same number of filters."""
    channels, groups = operands[0].shape[1], node.attribute("groups")
    others = {
        "convolution": operands[1].shape[0],
        "convolution_input_gradient": operands[1].shape[1] * groups,
        "convolution_weight_gradient": operands[1].shape[1],
    }
    return others[node.name] == channels and channels // groups in sizes


def narrowed(node: Node, dtype: DType = dtypes.bfloat16) -> Node:
    """`node` rounded to a 16-bit `dtype`; a value that was only widened or moved is not rounded or stored again."""
    if node.dtype is dtype:
        return node
    if node.name == "cast" and node.inputs[0].dtype is dtype:
        return node.inputs[0]
    if node.name in _REARRANGING:
        return make_node(node.operation, (narrowed(node.inputs[0], dtype),), node.attributes)
    return _cast(node, dtype)


def _one_more(node: Node, axis: int) -> Node:
    """`node` with a zero appended along `axis`, which makes a pair with the last element."""
    nothing, one = (0,) * node.ndim, tuple(int(place == axis) for place in range(node.ndim))
    return p.pad(node, nothing, one, nothing, 0)


def _cast(node: Node, dtype: DType) -> Node:
    return node if node.dtype is dtype else p.cast(node, dtype)
