"""Simplifies a graph: fewer nodes, the same bits.

Each rule keeps every bit of the result on every device, with subnormal numbers flushed or not. So x + 0 stays (it
maps -0 to 0), only correctly rounded operations are folded, and x * 1 is removed only where x is a result of arithmetic
(which flushes subnormals, as the multiplication would). Common subexpressions are merged, and dead code is removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from trainer.engine.graph import half
from trainer.engine.graph import primitives as p
from trainer.engine.graph.common import Common
from trainer.engine.graph.dtypes import ALL, DType, bfloat16, float16, float32, float64
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives import NEGATIVE_ZERO
from trainer.engine.graph.rewrite import on, rebuilt

Rule = Callable[[Node], Node | None]  # a node with simplified inputs -> an equal node, or None

_FOLDED = frozenset(
    {"add", "subtract", "multiply", "divide", "negative", "abs", "sqrt", "floor", "ceil", "trunc", "round", "cast"}
    | {"equal", "not_equal", "less", "less_equal", "logical_and", "logical_or", "logical_xor", "logical_not", "where"}
    | {"maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"}
)
SPECIAL_NUMBERS = frozenset({0, NEGATIVE_ZERO, 1, -1, math.inf, -math.inf, math.nan})
"""Constants that a rule, a kernel or LLVM may treat specially; True and False included."""

_MOVES_BITS = frozenset(
    {"negative", "abs", "where", "isfinite", "isnan", "isinf", "gather", "take_along", "argsort", "sort", "top_k"}
    | {"copysign", "nextafter", "complex", "real", "imag"}
)
_COPIES = frozenset({"reshape", "permute", "expand", "slice", "flip", "windows", "barrier", "stop_gradient"})


def simplify(outputs: Sequence[Node]) -> list[Node]:
    """Returns the nodes of `outputs` in the simplified graph, in their order."""
    common = Common()
    return rebuilt(outputs, lambda node, inputs: common.of(_simplified(common.of(on(node, inputs)))))


def _simplified(node: Node) -> Node:
    rules = _RULES.get(node.name, ())
    for rule in (_folded, *rules) if node.name in _FOLDED else rules:
        found = rule(node)
        if found is not None:
            return found
    return node


def uniform_value(node: Node) -> bool | int | float | None:
    """Returns the number that fills `node`, if it is a constant or a broadcast constant; else None."""
    while node.name in ("expand", "reshape"):
        node = node.inputs[0]
    return node.attributes[0] if node.name == "constant" else None


def _folded(node: Node) -> Node | None:
    """Folds an element-wise node of constants into a constant of its shape."""
    values = [uniform_value(source) for source in node.inputs]
    if any(value is None for value in values):
        return None
    arrays = [_array(value, source.dtype) for value, source in zip(values, node.inputs, strict=True)]
    with np.errstate(all="ignore"):
        result = np.asarray(node.operation.reference(node.attributes, *arrays))
    result = half.rounded(result, node.dtype)
    if any(_is_subnormal(array, source.dtype) for array, source in zip(arrays, node.inputs, strict=True)):
        return None
    if _is_subnormal(result, node.dtype):
        return None
    return p.full(node.shape, result.item(), node.dtype)


def _array(value: bool | int | float | None, dtype: DType) -> np.ndarray:
    return np.asarray(value, np.float32 if dtype.is_half else dtype.storage)


def _is_subnormal(array: np.ndarray, dtype: DType) -> bool:
    computed = np.float64 if dtype is float64 else np.float32  # 16-bit floats are computed in float32
    return dtype.is_float and 0.0 < abs(float(array)) < float(np.finfo(computed).tiny)


def moves_bits(node: Node) -> bool:
    """Whether the instructions of `node` flush no subnormals; rounding to 16 bits and widening don't."""
    if node.name == "cast":
        return {node.dtype, node.inputs[0].dtype} <= {float32, bfloat16, float16}
    return node.name in _MOVES_BITS


def _is_flushed(node: Node) -> bool:
    """Whether `node` has no subnormal numbers on devices whose arithmetic flushes them."""
    waiting, known = [node], set[Node]()
    while waiting:
        each = waiting.pop()
        if each in known or not each.dtype.is_float:
            continue
        known.add(each)
        if each.name in _COPIES or moves_bits(each):
            waiting += each.inputs
        elif each.name == "constant":
            if _is_subnormal(_array(each.attributes[0], each.dtype), each.dtype):
                return False
        elif each.operation.family not in ("elementwise", "reduction", "contraction"):
            return False
    return True


# --- arithmetic with neutral elements ---------------------------------------------------------------------------------


def _without(is_neutral: Callable[[bool | int | float, DType], bool], *sides: int) -> Rule:
    """The rule that replaces a node by one input if the other one, at one of `sides`, is a neutral number."""

    def rule(node: Node) -> Node | None:
        for side in sides:
            kept, value = node.inputs[1 - side], uniform_value(node.inputs[side])
            if value is not None and is_neutral(value, node.dtype) and _is_flushed(kept):
                return kept
        return None

    return rule


def _logical(decisive: bool) -> Rule:
    """The rule of `and` and `or` with a uniform input: the result is that input if it is `decisive`, else the other."""

    def rule(node: Node) -> Node | None:
        a, b = node.inputs
        for kept, other in ((a, b), (b, a)):
            value = uniform_value(other)
            if value is not None:
                return other if bool(value) is decisive else kept
        return a if a is b else None

    return rule


def _negative(node: Node) -> Node | None:
    inner = node.inputs[0]
    return inner.inputs[0] if inner.name == "negative" else None


def _where(node: Node) -> Node | None:
    condition, a, b = node.inputs
    value = uniform_value(condition)
    if value is None:
        return a if a is b else None
    return a if value else b


# --- casts ------------------------------------------------------------------------------------------------------------

_DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
"""Bits of a float's significand."""


def _holds(wide: DType, narrow: DType) -> bool:
    if wide is narrow or "bool" in (wide.kind, narrow.kind):
        return wide is not narrow and narrow.kind == "bool"
    if wide.is_float and narrow.is_float:
        return wide.itemsize > narrow.itemsize
    digits = 8 * narrow.itemsize - (narrow.kind == "int")
    if wide.is_float:
        return narrow.is_integer and digits <= _DIGITS[wide.name]
    if wide.kind == "uint" and narrow.kind == "int":
        return False
    return narrow.is_integer and digits < 8 * wide.itemsize - (wide.kind == "int") + (
        wide.kind == narrow.kind == "uint"
    )


_HOLDS = {
    narrow.name: tuple(wide.name for wide in ALL if not wide.is_complex and _holds(wide, narrow))
    for narrow in ALL
    if not narrow.is_complex
}
"""dtype -> the wider dtypes that hold each of its values exactly."""


def _cast(node: Node) -> Node | None:
    inner, target = node.inputs[0], node.dtype
    if inner.dtype is target:
        return inner if _is_flushed(inner) else None
    if inner.name == "cast":
        source = inner.inputs[0]
        if inner.dtype.name in _HOLDS.get(source.dtype.name, ()) and _is_flushed(source):
            if source.dtype is target:
                return source
            if target.name in _HOLDS[source.dtype.name]:
                return p.cast(source, target)
    return None


# --- movement ---------------------------------------------------------------------------------------------------------


def _unmoved(node: Node) -> Node | None:
    """Removes a movement that keeps the shape."""
    return node.inputs[0] if node.inputs[0].shape == node.shape else None


def _uniform(node: Node) -> Node | None:
    """Replaces a movement of one repeated number by a constant of the new shape."""
    value = uniform_value(node.inputs[0])
    return None if value is None else p.full(node.shape, value, node.dtype)


def _reshape(node: Node) -> Node | None:
    inner = node.inputs[0]
    if inner.name == "reshape":
        return p.reshape(inner.inputs[0], node.shape)
    return _uniform(node) if inner.name == "expand" else None


def _permute(node: Node) -> Node | None:
    inner, axes = node.inputs[0], node.attributes[0]
    if axes == tuple(range(len(axes))):
        return inner
    if inner.name == "permute":
        first = inner.attributes[0]
        return _simplified(p.permute(inner.inputs[0], tuple([first[axis] for axis in axes])))
    return _uniform(node)


def _expand(node: Node) -> Node | None:
    inner = node.inputs[0]
    return p.expand(inner.inputs[0], node.shape) if inner.name == "expand" else None


def _part(node: Node) -> Node | None:
    inner = node.inputs[0]
    return inner.inputs[0 if node.name == "real" else 1] if inner.name == "complex" else None


def _flip(node: Node) -> Node | None:
    inner = node.inputs[0]
    if inner.name == "flip" and inner.attributes == node.attributes:
        return inner.inputs[0]
    return inner if uniform_value(inner) is not None else None


def _concatenate(node: Node) -> Node | None:
    (axis,) = node.attributes
    parts = [part for part in node.inputs if part.shape[axis]]
    if len(parts) == 1:
        return parts[0]
    return p.concatenate(parts, axis) if parts and len(parts) < len(node.inputs) else None


def _side_by_side(node: Node) -> Node | None:
    """Joins arrays that are padded with zeros to adjacent parts of a whole and added, as gradients of slices are.

    Adding zero to each element has the same effect as adding the padding of the others.
    """
    parts: list[tuple[int, Node]] = []
    axes: set[int] = set()
    waiting = list(node.inputs)
    while waiting:
        each = waiting.pop()
        if each.name == "add":
            waiting += each.inputs
            continue
        if each.name != "pad":
            return None
        low, high, interior, value = each.attributes
        around = {axis for axis in range(each.ndim) if low[axis] or high[axis]}
        axes |= around
        if len(axes) != 1 or around != axes or any(interior) or value is NEGATIVE_ZERO or value != 0:
            return None
        parts.append((low[min(around)], each.inputs[0]))
    axis, end = axes.pop(), 0
    parts.sort(key=lambda part: part[0])
    for first, part in parts:
        if first != end:
            return None
        end += part.shape[axis]
    if end != node.shape[axis] or node.dtype.is_complex:
        return None
    if node.dtype.is_float:
        return p.concatenate([p.add(part, p.full(part.shape, 0.0, part.dtype)) for _, part in parts], axis)
    return p.concatenate([part for _, part in parts], axis)


def _moments(node: Node) -> Node | None:
    """Replaces moments of joined arrays by joined moments: in a DenseNet, each batch norm then reads only new arrays.

    The order and bits of a reduction depend only on its number of terms, which stays the same.
    """
    joined, axes = node.inputs[0], node.attributes[0]
    if joined.name != "concatenate" or joined.attributes[0] in axes:
        return None
    axis = joined.attributes[0] - sum(each < joined.attributes[0] for each in axes)
    parts = [on(node, (part,)) for part in joined.inputs]
    return p.concatenate([_moments(part) or part for part in parts], axis)


_RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(("anchor", "with_gradient"), (lambda node: node.inputs[0],)),
    "add": (
        _without(lambda value, dtype: value is NEGATIVE_ZERO if dtype.is_float else value == 0, 1, 0),
        _side_by_side,
    ),
    "subtract": (_without(lambda value, dtype: value is not NEGATIVE_ZERO and value == 0, 1),),
    "multiply": (_without(lambda value, dtype: value == 1, 1, 0),),
    "divide": (_without(lambda value, dtype: value == 1, 1),),
    "negative": (_negative,),
    "where": (_where,),
    "logical_and": (_logical(decisive=False),),
    "logical_or": (_logical(decisive=True),),
    "cast": (_cast,),
    "reshape": (_unmoved, _reshape),
    "permute": (_permute,),
    "expand": (_unmoved, _expand),
    "slice": (_unmoved, _uniform),
    "flip": (_flip,),
    "windows": (_uniform,),
    "pad": (_unmoved,),
    "real": (_part,),
    "imag": (_part,),
    "concatenate": (_concatenate,),
    **dict.fromkeys(("reduce_mean", "reduce_deviations"), (_moments,)),
}
