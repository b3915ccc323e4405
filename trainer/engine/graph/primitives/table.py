"""The table of primitives, and the rules of shape and dtype that many entries share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import DTypeError, describe, refusal
from trainer.engine.graph.node import Family, Node, Primitive, Shape, make_node

TABLE: dict[str, Primitive] = {}

BUNDLES: dict[str, Primitive] = {}
"""Primitives that compute several arrays from arrays alone, and "output", which reads one of them."""

OF_COMPLEX: dict[str, Callable[..., Node]] = {}
"""Compositions of primitives of the parts that replace a primitive if its first input is complex; see `complex.py`.
They take the inputs, then the attributes."""

ShapeRule = Callable[[Sequence[Node], tuple[Any, ...]], Shape]
DTypeRule = Callable[[Sequence[Node], tuple[Any, ...]], DType]

FLOAT = ("float",)
SIGNED = ("int", "float")
NUMERIC = ("int", "uint", "float")
INTEGER = ("int", "uint")
BOOLEAN = ("bool",)
REAL = ("bool", "int", "uint", "float")
ANY = (*REAL, "complex")

_WORDS = {
    FLOAT: "a floating-point dtype",
    SIGNED: "a signed dtype",
    NUMERIC: "a numeric dtype",
    INTEGER: "an integer dtype",
    BOOLEAN: "bool",
    REAL: "a real dtype",
    ANY: "any dtype",
}


def register(
    name: str, family: Family, shape: ShapeRule, dtype: DTypeRule | tuple[str, ...], reference: Callable[..., Any],
    attributes: tuple[str, ...] = (), *, result: DType | None = None,
) -> Primitive:  # fmt: skip
    """Adds a primitive under an unused name. `dtype` is a rule, or the kinds for `first_dtype` with `result`."""
    if name in TABLE:
        raise ValueError(f"{name} is in the table already")
    rule = first_dtype(name, dtype, result) if isinstance(dtype, tuple) else dtype
    primitive = TABLE[name] = Primitive(name, family, shape, rule, reference, attributes)
    return primitive


def register_bundle(primitive: Primitive) -> Primitive:
    """Adds a primitive of several outputs, or the one that reads them, under an unused name."""
    if primitive.name in TABLE or primitive.name in BUNDLES:
        raise ValueError(f"{primitive.name} is in the table already")
    BUNDLES[primitive.name] = primitive
    return primitive


def composed(primitive: Primitive, inputs: tuple[Node, ...], attributes: tuple[Any, ...] = ()) -> Node:
    """A node of `primitive`, or its composition in `OF_COMPLEX` if the first input is complex."""
    if inputs[0].dtype.kind == "complex":
        build = OF_COMPLEX.get(primitive.name)
        if build is not None:
            return build(*inputs, *attributes)
    return make_node(primitive, inputs, attributes)


def named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with `name`, which errors and documentation show."""
    function.__name__ = function.__qualname__ = name
    return function


def first_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    """The shape of the first input."""
    return inputs[0].shape


def along_axes(name: str) -> ShapeRule:
    """The rule that attribute 0 is one or several axes of the first input, and the result has its shape."""

    def rule(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
        for axis in axes_of(attributes):
            check_axis(name, axis, len(inputs[0].shape))
        return inputs[0].shape

    return rule


def common_shape(name: str) -> ShapeRule:
    """The rule that all inputs and the result have one shape."""

    def rule(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
        shape = inputs[0].shape
        for other in inputs:
            if other.shape != shape:
                raise refusal(name, "shapes differ", found=describe(inputs), expected="inputs of one shape")
        return shape

    return rule


def first_dtype(name: str, kinds: tuple[str, ...], result: DType | None = None) -> DTypeRule:
    """The rule that all inputs have one dtype, of `kinds`; the result has the same dtype, or `result`."""

    def rule(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
        dtype = inputs[0].dtype
        for other in inputs:
            if other.dtype is not dtype:
                raise refusal(name, "dtypes differ", found=describe(inputs), expected="inputs of one dtype")
        if dtype.kind not in kinds:
            raise refusal(
                name, f"does not take {dtype}", found=describe(inputs), expected=_WORDS[kinds], kind=DTypeError
            )
        return dtype if result is None else result

    return rule


def single_or_double(name: str) -> DTypeRule:
    """The rule that inputs and result are all float32, or all float64."""

    def rule(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
        dtype = inputs[0].dtype
        if dtype not in (dtypes.float32, dtypes.float64) or any(other.dtype is not dtype for other in inputs):
            found, expected = describe(inputs), "float32 or float64"
            raise refusal(name, f"does not take {dtype}", found=found, expected=expected, kind=DTypeError)
        return dtype

    return rule


def check_index_dtype(name: str, indices: Node) -> None:
    """Raises unless `indices` is int32 or int64."""
    if indices.dtype.name not in ("int32", "int64"):
        raise refusal(name, "indices are integers", found=describe([indices]), expected="int32 or int64")


def axes_of(attributes: tuple[Any, ...]) -> tuple[int, ...]:
    """The axes that attribute 0 names: one, or a tuple of them."""
    return attributes[0] if isinstance(attributes[0], tuple) else attributes[:1]


def check_axis(name: str, axis: int, ndim: int) -> None:
    """Raises unless `axis` is one of `ndim` axes, counted from the front."""
    if not 0 <= axis < ndim:
        raise refusal(name, "no such axis", found=f"axis {axis}", expected=f"an axis of 0 to {ndim - 1}")
