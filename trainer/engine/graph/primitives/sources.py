"""Leaves and sources: memory, constants, index counts and random bits."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes, half, philox
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import check_dtype, describe, refusal
from trainer.engine.graph.node import Node, Shape, make_node
from trainer.engine.graph.primitives.table import OF_COMPLEX, check_axis, register
from trainer.engine.graph.storage import Storage


class _NegativeZero(float):
    """-0.0 that differs from 0.0 as a key, so that merging and compiled kernels distinguish them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NegativeZero)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, _NegativeZero)

    def __hash__(self) -> int:
        return hash("-0.0")


NEGATIVE_ZERO = _NegativeZero(-0.0)


def canonical(value: Any, dtype: DType) -> bool | int | float:
    """`value` rounded to `dtype` as a Python number that is equal to another only when their bits are equal."""
    check_dtype("constant", dtype)
    if dtype.kind == "bool":
        return bool(value)
    if dtype.is_complex:
        return _complex_zero(value, dtype)
    if dtype.kind != "float":
        information = np.iinfo(dtype.storage)
        whole = int(value)
        if not information.min <= whole <= information.max:
            raise refusal(
                "constant", f"{whole} does not fit into {dtype}", expected=f"{information.min} to {information.max}"
            )
        return whole
    number = float(value)
    if dtype is not dtypes.float64:
        number = ctypes.c_float(number).value  # a tenth of the time that np.float32 takes
        if dtype.is_half:
            number = float(half.rounded(np.asarray(number, np.float32), dtype))
    if number == 0.0:
        return NEGATIVE_ZERO if math.copysign(1.0, number) < 0 else 0.0
    return math.nan if number != number else number


def _complex_zero(value: Any, dtype: DType) -> int:
    """The only complex constant: zero. Others are composed of constants of the parts (`compose.full`)."""
    if value != 0:
        raise refusal("constant", f"no primitive holds a {dtype} but zero", found=repr(value))
    return 0


BUFFER = register(
    "buffer", "leaf",
    lambda inputs, attributes: attributes[0].shape,
    lambda inputs, attributes: attributes[0].dtype,
    lambda attributes: half.widened(attributes[0].view(), attributes[0].dtype), ("storage",),
)  # fmt: skip

CONSTANT = register(
    "constant", "source", lambda inputs, attributes: (), lambda inputs, attributes: attributes[1],
    lambda attributes: np.asarray(attributes[0], np.float64 if attributes[1].is_float else attributes[1].storage),
    ("value", "dtype"),
)  # fmt: skip


def _iota_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    shape, axis, _ = attributes
    check_axis("iota", axis, len(shape))
    return shape


def _iota_dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    check_dtype("iota", attributes[2])
    if attributes[2].kind in ("bool", "complex"):
        raise refusal("iota", f"counts, so it can't be {attributes[2]}", expected="an integer or a float")
    return attributes[2]


def _iota_reference(attributes: tuple[Any, ...]) -> np.ndarray:
    shape, axis, _ = attributes
    count = np.arange(shape[axis], dtype=np.int64)
    return np.broadcast_to(count.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


IOTA = register("iota", "source", _iota_shape, _iota_dtype, _iota_reference, ("shape", "axis", "dtype"))


def _bits_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    shape, word = attributes
    if any(node.shape != (2,) or node.dtype is not dtypes.int32 for node in inputs) or word not in (0, 1, 2, 3):
        raise refusal(
            "random_bits",
            "takes a key and a counter of two words each, and an output word",
            found=f"{describe(inputs)}, word {word}",
            expected="int32[2] and int32[2], word 0 to 3",
        )
    return shape


RANDOM_BITS = register(
    "random_bits", "source", _bits_shape, lambda inputs, attributes: dtypes.int32,
    lambda attributes, key, counter: philox.random_bits(key, counter, *attributes), ("shape", "word"),
)  # fmt: skip


def buffer(storage: Storage) -> Node:
    """The value in `storage`."""
    node = make_node(BUFFER, (), (storage,))
    node.value = storage
    return node


def become_leaf(node: Node) -> None:
    """Makes `node`, whose value is known, a leaf: drops the inputs that it was computed from."""
    node.operation, node.attributes, node.inputs, node.witness = BUFFER, (node.value,), (), None


def constant(value: Any, dtype: DType) -> Node:
    """A scalar, shape ()."""
    if isinstance(dtype, DType) and dtype.is_complex:
        number = complex(value)
        return OF_COMPLEX["complex"](constant(number.real, dtype.part), constant(number.imag, dtype.part))
    return make_node(CONSTANT, (), (canonical(value, dtype), dtype))


def iota(shape: Shape, axis: int, dtype: DType) -> Node:
    """The index along `axis` at every place of `shape`."""
    return make_node(IOTA, (), (shape, axis, dtype))


def random_bits(key: Node, counter: Node, shape: Shape, word: int) -> Node:
    """32 random bits for each element (int32): output `word` of Philox4x32-10.

    The counter words are (row-major index low, index high, counter[0], counter[1]), the key words key[0], key[1];
    `key` and `counter` are int32 [2].
    """
    return make_node(RANDOM_BITS, (key, counter), (shape, word))
