"""Every element-wise operation against NumPy, on every dtype: exact where NumPy is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.targets.kernels.loop_runner import apply, from_bfloat16, run_elementwise, to_bfloat16
from trainer.engine.graph.dtypes import DType, bfloat16, bool_, float32, float64, int32, int64, uint8
from trainer.engine.program.spec import Instruction
from trainer.engine.targets.ir.writer import Writer

INTEGERS = [uint8, int32, int64]
FLOATS = [float32, float64]
COUNT = 1_003


def sample(dtype: DType, seed: int = 0) -> np.ndarray:
    """Values of all sizes, with the extreme and the special ones."""
    random = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return random.integers(0, 2, COUNT).astype(bool)
    if dtype.is_integer:
        information = np.iinfo(dtype.storage)
        edges: list[float] = [information.min, information.max, 0, 1, information.max - 1]
        values = random.integers(information.min, information.max, COUNT, dtype.storage, endpoint=True)
        values[::3] = random.integers(0, 9, values[::3].size)
    else:
        edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.5, 2.5, 1e-30]
        values = (random.standard_normal(COUNT) * 10.0 ** random.integers(-3, 6, COUNT)).astype(dtype.storage)
    values[: len(edges)] = edges
    return random.permutation(values)


UNARY = ["negative", "abs", "sign", "floor", "ceil", "round", "trunc"]
CLASSES = ["isfinite", "isnan", "isinf"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal"]
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_arithmetic_equals_numpy(dtype: DType) -> None:
    x, y = sample(dtype), sample(dtype, 1)
    y[::5] = x[::5]
    with np.errstate(all="ignore"):
        for name in UNARY:
            wanted = getattr(np, name)(x)
            if name == "sign" and dtype is uint8:
                wanted = (x > 0).astype(np.uint8)
            np.testing.assert_array_equal(apply(name, [(dtype, x)], dtype), wanted, name)
        for name in BINARY:
            result = apply(name, [(dtype, x), (dtype, y)], dtype)
            np.testing.assert_array_equal(result, getattr(np, name)(x, y), name)
        for name in COMPARISONS:
            result = apply(name, [(dtype, x), (dtype, y)], bool_)
            np.testing.assert_array_equal(result, getattr(np, name)(x, y), name)
        for name in CLASSES:
            np.testing.assert_array_equal(apply(name, [(dtype, x)], bool_), getattr(np, name)(x), name)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_division_and_roots_are_rounded_once(dtype: DType) -> None:
    x, y = sample(dtype), sample(dtype, 1)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply("divide", [(dtype, x), (dtype, y)], dtype), x / y)
        np.testing.assert_array_equal(apply("sqrt", [(dtype, x)], dtype), np.sqrt(x))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nothing_is_contracted(dtype: DType) -> None:
    """A product and a sum stay two roundings."""
    x, y, z = (np.random.default_rng(seed).standard_normal(COUNT).astype(dtype.storage) for seed in range(3))
    body = [Instruction("load", (), dtype, (number,)) for number in range(3)]
    body += [Instruction("multiply", (0, 1), dtype), Instruction("add", (3, 2), dtype)]
    result = np.empty_like(x)
    run_elementwise(body, [(dtype, x), (dtype, y), (dtype, z)], [(4, dtype, result)])
    np.testing.assert_array_equal(result, x * y + z)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_division_floors_and_never_traps(dtype: DType) -> None:
    x, y = sample(dtype), sample(dtype, 1)
    x[:3], y[:3] = np.iinfo(dtype.storage).min, [0, 1, np.array(-1).astype(dtype.storage)]
    with np.errstate(all="ignore"):
        for name in ("floor_divide", "remainder"):
            np.testing.assert_array_equal(apply(name, [(dtype, x), (dtype, y)], dtype), getattr(np, name)(x, y), name)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_powers_wrap(dtype: DType) -> None:
    x, y = sample(dtype), np.random.default_rng(1).integers(0, 70, COUNT).astype(dtype.storage)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply("power", [(dtype, x), (dtype, y)], dtype), x**y)


def test_integer_powers_with_negative_exponents_are_truncated_reciprocals() -> None:
    x, y = np.array([1, -1, -1, 2, -3, 0], np.int32), np.array([-5, -2, -3, -1, -1, -1], np.int32)
    np.testing.assert_array_equal(apply("power", [(int32, x), (int32, y)], int32), [1, 1, -1, 0, 0, 0])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bits_and_shifts_equal_numpy(dtype: DType) -> None:
    x, y = sample(dtype), sample(dtype, 1)
    width = 8 * dtype.itemsize
    counts = np.random.default_rng(2).integers(0, width + 3, COUNT).astype(dtype.storage)
    for name in BITWISE:
        np.testing.assert_array_equal(apply(name, [(dtype, x), (dtype, y)], dtype), getattr(np, name)(x, y), name)
    np.testing.assert_array_equal(apply("bitwise_invert", [(dtype, x)], dtype), ~x)
    pair = [(dtype, x), (dtype, counts)]
    np.testing.assert_array_equal(apply("shift_left", pair, dtype), np.left_shift(x, counts))
    np.testing.assert_array_equal(apply("shift_right", pair, dtype), np.right_shift(x, counts))
    unsigned = np.dtype(f"u{dtype.itemsize}")
    logical = np.right_shift(x.view(unsigned), counts.view(unsigned)).view(x.dtype)
    np.testing.assert_array_equal(apply("shift_right_logical", pair, dtype), logical)


def test_logic_and_choice() -> None:
    p, q = sample(bool_), sample(bool_, 1)
    for name in ("logical_and", "logical_or", "logical_xor"):
        np.testing.assert_array_equal(apply(name, [(bool_, p), (bool_, q)], bool_), getattr(np, name)(p, q), name)
    np.testing.assert_array_equal(apply("logical_not", [(bool_, p)], bool_), ~p)
    for dtype in (bool_, *INTEGERS, *FLOATS):
        x, y = sample(dtype), sample(dtype, 1)
        chosen = apply("where", [(bool_, p), (dtype, x), (dtype, y)], dtype)
        np.testing.assert_array_equal(chosen, np.where(p, x, y))


def test_conversions_between_all_types() -> None:
    """In range they are NumPy's; beyond, floats saturate (next test)."""
    random = np.random.default_rng(0)
    for source in (bool_, *INTEGERS, *FLOATS):
        values = random.integers(0, 2 if source is bool_ else 120, COUNT).astype(source.storage)
        if source.is_float:
            values += random.random(COUNT).astype(source.storage)
        for target in (bool_, *INTEGERS, *FLOATS):
            result = apply("cast", [(source, values)], target)
            np.testing.assert_array_equal(result, values.astype(target.storage), f"{source} to {target}")
    signed = np.array([-1, -200, 300, 2**40 + 3], np.int64)
    for target in (uint8, int32, float32):
        np.testing.assert_array_equal(apply("cast", [(int64, signed)], target), signed.astype(target.storage))


def test_floats_beyond_an_integers_range_saturate() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 255.9, -0.9], np.float32)
    np.testing.assert_array_equal(
        apply("cast", [(float32, x)], int32), [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 255, 0]
    )
    np.testing.assert_array_equal(apply("cast", [(float32, x)], uint8), [0, 255, 0, 255, 0, 255, 0])


def test_bfloat16_computes_in_float32_and_rounds_every_operation_to_even() -> None:
    random = np.random.default_rng(0)
    x, y = (to_bfloat16(random.standard_normal(COUNT).astype(np.float32) * 10) for _ in range(2))
    wide_x, wide_y = from_bfloat16(x), from_bfloat16(y)
    pair = [(bfloat16, x), (bfloat16, y)]
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"):
        wanted = to_bfloat16(getattr(np, name)(wide_x, wide_y))
        np.testing.assert_array_equal(apply(name, pair, bfloat16), wanted, name)
    body = [*(Instruction("load", (), bfloat16, (number,)) for number in range(2))]
    body += [Instruction("multiply", (0, 1), bfloat16), Instruction("add", (2, 1), bfloat16)]
    result = np.empty_like(x)
    run_elementwise(body, pair, [(3, bfloat16, result)])
    product = from_bfloat16(to_bfloat16(wide_x * wide_y))
    np.testing.assert_array_equal(result, to_bfloat16(product + wide_y))


def test_bfloat16_rounding_of_ties_infinities_and_nan() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0xFFFFFFFF], np.uint32)
    result = apply("cast", [(float32, bits.view(np.float32))], bfloat16)
    assert result[:5].tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7F80, 0x7F80]
    assert np.isnan(from_bfloat16(result[5:])).all()


# published with Random123: (counter words, key words, output words), low word first
PHILOX = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "output"), PHILOX)
def test_random_bits_are_philox(counter: tuple[int, ...], key: tuple[int, ...], output: tuple[int, ...]) -> None:
    def word(value: int) -> tuple[DType, np.ndarray]:
        return int32, np.full(20, value, np.uint32).view(np.int32)

    index = np.full(20, counter[0] | counter[1] << 32, np.uint64).view(np.int64)
    arguments = [word(key[0]), word(key[1]), (int64, index), word(counter[2]), word(counter[3])]
    for position, wanted in enumerate(output):
        bits = apply("random_bits", arguments, int32, (position,)).view(np.uint32)
        assert set(bits.tolist()) == {wanted}


def test_constants_are_rounded_to_their_type() -> None:
    wanted = {float32: 0.1, bfloat16: 0.1, float64: 0.1, int32: -7, uint8: 300, int64: 2**40, bool_: True}
    for dtype, value in wanted.items():
        result = np.empty(21, dtype.storage)
        run_elementwise([Instruction("constant", (), dtype, (value,))], [], [(0, dtype, result)])
        if dtype is bfloat16:
            assert set(result.tolist()) == {0x3DCD}
        else:
            assert set(result.tolist()) == {np.array(value).astype(dtype.storage).item()}


def test_an_unknown_operation_is_refused() -> None:
    from trainer.engine.targets.ir.expression import render_body

    with pytest.raises(ValueError, match="frobnicate"):
        render_body(Writer(), [Instruction("frobnicate", (), float32)], [])
