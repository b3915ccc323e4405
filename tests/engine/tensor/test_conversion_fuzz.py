"""Casts and copies against NumPy, on random arrays of every dtype, byte order, stride and shape.

Expected values are computed here from the documented rules, by exact integers and by NumPy's rounding: nothing of the
engine's own conversion is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from trainer import engine
from trainer.engine import DType, State, bfloat16, bool_, float16, float32, float64, int32, int64, uint8

DTYPES = (bool_, uint8, int32, int64, bfloat16, float16, float32, float64)
OWN = ("?", "u1", "i4", "i8", "f2", "f4", "f8")
OTHERS = ("i1", "i2", "u2", "u4", "u8")
SHAPES = ((), (0,), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4), (1, 2, 1, 3))
CPU_SHAPES = ((), (7,), (3, 5))
"""Each shape and pair of dtypes is a kernel to compile."""

INTEGERS = [0, 1, -1, 2, 127, 128, 255, 256, 257, 32767, 65535, 2**24 + 1, 2**31 - 1, 2**31, 2**32 + 5, 2**53 + 1]
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 254.9, 255.5, 256.0, 2.0**31 - 1, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e-7,
           3e-5, 65504.0, 65519.9, 65520.0, 3.3895e38, 3.4028e38, 1e39, 1e300, 1e-40, 1e-300, 5e-324, math.inf,
           math.nan]  # fmt: skip

QUICK, FULL, FULL_CPU = 50, 2800, 700


COPIES: tuple[Callable[[State], engine.Tensor], ...] = (
    lambda state: engine.asarray(state, copy=True),
    engine.positive,
    engine.clip,
    lambda state: engine.pow(state, 1),
    lambda state: state[...],
    lambda state: state.reshape(state.shape),
)
"""Ways to a tensor that keeps the value that a state has now."""


@dataclass(frozen=True)
class Case:
    """One random source and where it goes; `writable` is the same memory."""

    random: np.random.Generator
    writable: np.ndarray
    array: np.ndarray
    target: DType

    def __str__(self) -> str:
        array = self.array
        return f"{array.dtype.str}{list(array.shape)} strides {array.strides} to {self.target}: {array.tolist()!r:.300}"


def case(seed: int, *, cpu: bool = False) -> Case:
    random = np.random.default_rng(seed)
    kind = str(random.choice(OWN if random.random() < 0.75 else OTHERS))
    order = random.choice(["<", ">"]) if kind[-1] != "1" and kind != "?" else ""
    shapes = CPU_SHAPES if cpu else SHAPES
    shape = shapes[random.integers(len(shapes))]
    plain = numbers(random, np.dtype(kind), shape)
    writable = LAYOUTS[random.integers(len(LAYOUTS))](plain.astype(np.dtype(f"{order}{kind}")))
    array = writable[...]
    assert array.shape == shape and (not array.size or np.shares_memory(array, writable))
    array.setflags(write=bool(random.random() < 0.7))
    return Case(random, writable, array, DTYPES[random.integers(len(DTYPES))])


def numbers(random: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Random values of a dtype: any bits, values near the bounds of others, and ordinary ones."""
    size = math.prod(shape)
    if dtype.kind == "b":
        return (random.random(size) < 0.5).reshape(shape)
    bits = np.frombuffer(random.bytes(size * dtype.itemsize), dtype)
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            near = random.choice(SPECIAL, size) * random.choice([1, -1], size)
            ordinary = random.normal(size=size) * 10.0 ** random.integers(-3, 5, size)
            others = [near.astype(dtype), ordinary.astype(dtype)]
        else:
            exact = (random.choice(INTEGERS, size) * random.choice([1, -1], size)).tolist()
            others = [wrapped(exact, dtype), wrapped(random.integers(-9, 300, size).tolist(), dtype)]
    chosen = random.integers(3, size=size)
    return np.select([chosen == 0, chosen == 1], [bits, others[0]], others[1]).astype(dtype).reshape(shape)


def wrapped(values: list[int], dtype: np.dtype) -> np.ndarray:
    """Integers modulo 2 to the power of the dtype's bits, in its range."""
    bits = 8 * dtype.itemsize
    lowest = -(2 ** (bits - 1)) if dtype.kind == "i" else 0
    return np.array([(value - lowest) % 2**bits + lowest for value in values], dtype)


def fortran(array: np.ndarray) -> np.ndarray:
    return array.copy(order="F")


def backwards(array: np.ndarray) -> np.ndarray:
    flipped = (..., *(slice(None, None, -1),) * array.ndim)
    return array[flipped].copy()[flipped]


def spread(array: np.ndarray) -> np.ndarray:
    """Every third element along each axis of a larger array."""
    larger = np.zeros([3 * extent + 1 for extent in array.shape], array.dtype)
    view = larger[(..., *(slice(1, 3 * extent + 1, 3) for extent in array.shape))]
    view[...] = array
    return view


def swapped(array: np.ndarray) -> np.ndarray:
    return array.T.copy().T


def unaligned(array: np.ndarray) -> np.ndarray:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    view = raw[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


LAYOUTS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (np.array, fortran, backwards, spread, swapped, unaligned)


def converted(array: np.ndarray, target: DType) -> np.ndarray:
    """`array` as a tensor of `target` shows its values, by the documented rules."""
    values = array.ravel().tolist()
    if target is bool_:
        result = np.array([value != 0 for value in values], bool)  # NaN too
    elif target.is_integer:
        information = np.iinfo(target.name)
        lowest, highest = int(information.min), int(information.max)

        def whole(value: float) -> int:
            if value != value:
                return 0
            return (lowest if value < 0 else highest) if math.isinf(value) else max(lowest, min(int(value), highest))

        if array.dtype.kind == "f":
            result = np.array([whole(value) for value in values], target.name)
        else:
            result = wrapped([int(value) for value in values], np.dtype(target.name))
    else:
        with np.errstate(all="ignore"):
            native = array.ravel().astype(array.dtype.newbyteorder("="))
            if target is float64:
                result = native.astype(np.float64)
            elif target is float32:
                result = native.astype(np.float32)
            elif target is float16:
                result = native.astype(np.float32).astype(np.float16)
            else:
                result = np.array([to_bfloat16(float(value)) for value in native.astype(np.float32)], np.float32)
    return result.reshape(array.shape)


def to_bfloat16(value: float) -> float:
    """The nearest number of eight significant bits, of two the even one; through float32, which has its exponents."""
    if value == 0 or not math.isfinite(value):
        return value
    exponent = max(math.frexp(value)[1], -125)
    spacing = math.ldexp(1.0, exponent - 8)
    rounded = round(value / spacing) * spacing  # exact: both are of few bits, and Python rounds to even
    return math.copysign(math.inf if abs(rounded) >= 2.0**128 else abs(rounded), value)


def same(found: np.ndarray, expected: np.ndarray, what: object) -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape, what
    np.testing.assert_array_equal(found, expected, err_msg=str(what))
    if expected.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]), err_msg=str(what))


def scribble(array: np.ndarray) -> None:
    """Change every element."""
    if array.dtype.kind == "f":
        array[...] = np.where(np.isnan(array), 7, np.where(array == 0, 1, -array))
    else:
        array[...] = ~array


def check(given: Case) -> None:
    """Every way in and out, and that no two of them share memory."""
    array, target = given.array, given.target
    own = {dtype.name: dtype for dtype in DTYPES}.get(array.dtype.name)
    before, expected = array.copy(), converted(array, target)

    made = engine.asarray(array, dtype=target)
    named, settled = State(array, dtype=target), State(np.ones(array.shape), dtype=target)
    settled.set_value(array)
    plain = None if own is None else engine.asarray(array)
    scribble(given.writable)
    assert not array.size or not same_bits(array, before), "the test changes the source"

    for tensor in (made, named, settled):
        assert tensor.dtype is target and tensor.shape == array.shape
        same(tensor.numpy(), expected, given)
    if plain is not None and own is not None:
        assert plain.dtype is own
        same(plain.numpy(), before.astype(before.dtype.newbyteorder("=")), given)
        cast = plain.astype(target)
        same(cast.numpy(), expected, f"astype of {given}")
        other = DTYPES[given.random.integers(len(DTYPES))]
        same(cast.astype(other).numpy(), converted(expected, other), f"astype {other} of {given}")
        never_shared([plain, cast], given)
    same(State(made).numpy(), expected, given)
    copies = [copy(named) for copy in COPIES] + [engine.astype(named, target, copy=True), named.astype(target)]
    assert not any(copy.is_state for copy in copies)
    never_shared([made, named, settled, State(made), State(named), *copies], given)


def never_shared(tensors: list[engine.Tensor], what: object) -> None:
    """Whatever is written to one's copy changes no other, nor its own next copy."""
    values = [tensor.numpy().copy() for tensor in tensors]
    for tensor in tensors:
        copy = tensor.numpy()
        scribble(copy)
        for other, value in zip(tensors, values, strict=True):
            same(other.numpy(), value, what)
    for tensor in tensors:
        if isinstance(tensor, State):
            tensor.set_value(np.zeros(tensor.shape))
    for tensor, value in zip(tensors, values, strict=True):
        same(tensor.numpy(), np.zeros_like(value) if isinstance(tensor, State) else value, what)


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == other.tobytes()


@pytest.mark.parametrize("part", range(5))
def test_a_few_conversions_on_the_reference_device(part: int) -> None:
    for seed in range(part, QUICK, 5):
        check(case(seed))


@pytest.mark.full
@pytest.mark.parametrize("part", range(14))
def test_conversions_on_the_reference_device(part: int) -> None:
    for seed in range(QUICK + part, QUICK + FULL, 14):
        check(case(seed))


@pytest.mark.full
@pytest.mark.parametrize("part", range(7))
def test_conversions_on_the_cpu_device(part: int) -> None:
    with engine.device("cpu"):
        for seed in range(10_000 + part, 10_000 + FULL_CPU, 7):
            check(case(seed, cpu=True))
