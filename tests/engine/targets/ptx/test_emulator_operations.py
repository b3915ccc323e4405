"""Single instructions in the emulator equal NumPy, or exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tests.engine.targets.ptx.emulator import compiled
from tests.engine.targets.ptx.emulator import launch as launch_module
from tests.engine.targets.ptx.emulator.fault import Unsupported
from tests.engine.targets.ptx.emulator.launch import Buffer, launch
from tests.engine.targets.ptx.emulator.rounding import fused
from tests.engine.targets.ptx.modules import kernel, operation
from trainer.engine.graph import dtypes, half

COUNT = 96
_KINDS = {"u": "u", "s": "i", "b": "u", "f": "f"}


@pytest.fixture(autouse=True, params=["NumPy", "compiled"])
def executed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By NumPy, and in runs that are compiled at once."""
    monkeypatch.setattr(compiled, "often", 0 if request.param == "compiled" else 1 << 60)
    monkeypatch.setattr(compiled, "SHORTEST", 1)
    launch_module._code.cache_clear()


def dtype(kind: str) -> np.dtype:
    return np.dtype(f"{_KINDS[kind[0]]}{int(kind[1:]) // 8}")


def numbers(kind: str, seed: int) -> np.ndarray:
    random, own = np.random.default_rng(seed), dtype(kind)
    if own.kind == "f":
        values = random.standard_normal(COUNT) * 10.0 ** random.integers(-6, 6, COUNT)
        values[:6] = [0, -0.0, np.inf, -np.inf, np.nan, 1]
        with np.errstate(over="ignore"):
            return random.permutation(values).astype(own)
    values = random.integers(0, 256, (COUNT, own.itemsize), np.uint8)
    values[:3], values[3:6] = 0, 255
    return random.permutation(values).view(own).ravel()


def applied(instruction: str, inputs: tuple[str, ...], output: str, arrays: list[np.ndarray]) -> np.ndarray:
    out = np.zeros(COUNT, dtype(output))
    launch(operation(instruction, inputs, output), 1, COUNT, [Buffer(out, is_written=False), *arrays])
    return out


def bits(value: np.ndarray, width: int) -> list[int]:
    return [int(each) % (1 << width) for each in value]


INTEGERS: dict[str, tuple[str, Callable[..., int]]] = {
    "add.s32 %0, %1, %2": ("s32 s32 s32", lambda a, b: a + b),
    "sub.s64 %0, %1, %2": ("s64 s64 s64", lambda a, b: a - b),
    "mul.lo.s32 %0, %1, %2": ("s32 s32 s32", lambda a, b: a * b),
    "mul.hi.s32 %0, %1, %2": ("s32 s32 s32", lambda a, b: a * b >> 32),
    "mul.hi.u64 %0, %1, %2": ("u64 u64 u64", lambda a, b: a * b >> 64),
    "mul.hi.s64 %0, %1, %2": ("s64 s64 s64", lambda a, b: a * b >> 64),
    "mul.wide.s32 %0, %1, %2": ("s64 s32 s32", lambda a, b: a * b),
    "mad.wide.u16 %0, %1, %2, %3": ("u32 u16 u16 u32", lambda a, b, c: a * b + c),
    "mad.lo.s64 %0, %1, %2, %3": ("s64 s64 s64 s64", lambda a, b, c: a * b + c),
    "max.s32 %0, %1, %2": ("s32 s32 s32", max),
    "min.u32 %0, %1, %2": ("u32 u32 u32", min),
    "xor.b64 %0, %1, %2": ("b64 b64 b64", lambda a, b: a ^ b),
    "shl.b32 %0, %1, %2": ("b32 b32 u32", lambda a, n: a << n if n < 32 else 0),
    "shr.s32 %0, %1, %2": ("s32 s32 u32", lambda a, n: a >> min(n, 31)),
    "shr.u64 %0, %1, %2": ("u64 u64 u32", lambda a, n: a >> n if n < 64 else 0),
    "shf.l.wrap.b32 %0, %1, %2, %3": ("b32 b32 b32 u32", lambda lo, hi, n: (hi << 32 | lo) << (n & 31) >> 32),
    "shf.r.clamp.b32 %0, %1, %2, %3": ("b32 b32 b32 u32", lambda lo, hi, n: (hi << 32 | lo) >> min(n, 32)),
    "popc.b64 %0, %1": ("u32 b64", int.bit_count),
    "clz.b32 %0, %1": ("u32 b32", lambda a: 32 - a.bit_length()),
    "brev.b32 %0, %1": ("b32 b32", lambda a: int(f"{a:032b}"[::-1], 2)),
    "cvt.s64.s32 %0, %1": ("s64 s32", lambda a: a),
    "cvt.u64.u32 %0, %1": ("u64 u32", lambda a: a),
    "cvt.u16.u64 %0, %1": ("u16 u64", lambda a: a),
    "cvt.sat.s16.s32 %0, %1": ("s16 s32", lambda a: min(max(a, -(2**15)), 2**15 - 1)),
}


@pytest.mark.parametrize("instruction", INTEGERS)
def test_integers_equal_whole_numbers(instruction: str) -> None:
    kinds, expected = INTEGERS[instruction]
    output, *inputs = kinds.split()
    arrays = [numbers(kind, seed) for seed, kind in enumerate(inputs)]
    if "sh" in instruction:
        arrays[-1] = np.arange(COUNT, dtype=np.uint32)
    found = applied(instruction, tuple(inputs), output, arrays)
    width = 8 * found.dtype.itemsize
    rows = zip(*([int(each) for each in array] for array in arrays), strict=True)
    assert bits(found, width) == [expected(*row) % (1 << width) for row in rows]


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("length", [0, 1, 7, 31, 32])
def test_a_bit_field_is_extracted_and_inserted(kind: str, length: int) -> None:
    values, starts = numbers(kind, 1), np.arange(COUNT, dtype=np.uint32) % 33
    found = applied(f"bfe.{kind} %0, %1, %2, {length}", (kind, "u32"), kind, [values, starts])
    for value, start, field in zip(values, starts, found, strict=True):
        digits = [int(value) >> place & 1 for place in range(32)]
        inside = digits[start : start + length]
        sign = 0 if kind == "u32" or not length else digits[min(int(start) + length - 1, 31)]
        expected = inside + [sign] * (32 - len(inside))
        assert int(field) % 2**32 == sum(bit << place for place, bit in enumerate(expected))
    base = numbers("b32", 2)
    arrays = [values.view("u4"), base, starts]
    joined = applied(f"bfi.b32 %0, %1, %2, %3, {length}", ("b32", "b32", "u32"), "b32", arrays)
    mask = [((1 << length) - 1 << int(start)) % 2**32 for start in starts]
    assert joined.tolist() == [
        int(old) & ~m | int(value) % 2**32 << int(start) & m
        for old, value, start, m in zip(base, values, starts, mask, strict=True)
    ]


def test_division_truncates_and_the_remainder_has_the_sign_of_the_dividend() -> None:
    a, b = numbers("s32", 1), numbers("s32", 2)
    a, b = np.where(b == -1, 7, a).astype(np.int32), np.where(b == 0, 3, b).astype(np.int32)
    quotient = [int(Fraction(int(x), int(y))) for x, y in zip(a, b, strict=True)]
    assert applied("div.s32 %0, %1, %2", ("s32", "s32"), "s32", [a, b]).tolist() == quotient
    rest = applied("rem.s32 %0, %1, %2", ("s32", "s32"), "s32", [a, b])
    assert rest.tolist() == [int(x) - q * int(y) for x, y, q in zip(a, b, quotient, strict=True)]


def test_bytes_are_permuted_with_their_sign() -> None:
    a, b = np.full(COUNT, 0x33221180, np.uint32), np.full(COUNT, 0x77665544, np.uint32)
    found = applied("prmt.b32 %0, %1, %2, 0x7408", ("b32", "b32"), "b32", [a, b])
    assert hex(int(found[0])) == "0x774480ff"


def test_carries_chain_additions() -> None:
    a, b, c, d = (numbers("u64", seed) for seed in range(4))
    text = operation("add.cc.u64 %1, %1, %2;\n    addc.u64 %0, %3, %4", ("u64",) * 4, "u64")
    found = np.zeros(COUNT, np.uint64)
    launch(text, 1, COUNT, [found, a, b, c, d])
    whole = [int(w) + int(x) + ((int(y) + int(z)) << 64) for w, x, y, z in zip(a, b, c, d, strict=True)]
    assert found.tolist() == [number >> 64 & 2**64 - 1 for number in whole]


FLOATS: dict[str, Callable[..., np.ndarray]] = {
    "add.rn.f32 %0, %1, %2": np.add,
    "sub.rn.f64 %0, %1, %2": np.subtract,
    "mul.rn.f32 %0, %1, %2": np.multiply,
    "div.rn.f32 %0, %1, %2": np.divide,
    "max.NaN.f32 %0, %1, %2": np.maximum,
    "min.f32 %0, %1, %2": np.fmin,
    "copysign.f32 %0, %2, %1": np.copysign,
    "sqrt.rn.f64 %0, %1": np.sqrt,
    "rcp.rn.f32 %0, %1": np.reciprocal,
    "cvt.rni.f32.f32 %0, %1": np.rint,
    "cvt.rmi.f64.f64 %0, %1": np.floor,
    "abs.f32 %0, %1": np.abs,
    "neg.f64 %0, %1": np.negative,
}


@pytest.mark.parametrize("instruction", FLOATS)
def test_floats_equal_numpy(instruction: str) -> None:
    kind = instruction.split()[0].split(".")[-1]
    arrays = [numbers(kind, seed) for seed in range(2 if "%2" in instruction else 1)]
    found = applied(instruction, (kind,) * len(arrays), kind, arrays)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, FLOATS[instruction](*arrays))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_fused_product_is_rounded_once(kind: type) -> None:
    random = np.random.default_rng(5)
    scale = 2.0 ** random.integers(-60, 60, (3, 400))
    a, b, c = (random.standard_normal((3, 400)) * scale).astype(kind)
    half = np.arange(400) < 200
    c = np.where(half, (-(a.astype(np.float64) * b)).astype(kind), c).astype(kind)  # what cancels is what was lost
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    found = fused(a, b, c)
    for value, each in zip(found, exact, strict=True):
        other = [float(value), float(np.nextafter(value, kind(np.inf))), float(np.nextafter(value, kind(-np.inf)))]
        distances = [abs(Fraction(number) - each) for number in other]
        assert distances[0] == min(distances)


def test_directed_roundings_enclose_the_exact_product() -> None:
    a, b = (np.abs(np.random.default_rng(seed).standard_normal(COUNT)).astype(np.float32) for seed in (1, 2))
    exact = a.astype(np.float64) * b
    below, above, cut = (
        applied(f"mul.{mode}.f32 %0, %1, %2", ("f32", "f32"), "f32", [a, b]) for mode in ("rm", "rp", "rz")
    )
    assert (below <= exact).all() and (exact <= above).all()
    np.testing.assert_array_equal(cut, below)
    np.testing.assert_array_equal(above, np.where(below == exact, below, np.nextafter(below, np.float32(np.inf))))


def test_subnormal_numbers_are_flushed_where_the_instruction_says_so() -> None:
    values = np.full(COUNT, np.float32(1e-39))
    assert (applied("add.rn.f32 %0, %1, 0f00000000", ("f32",), "f32", [values]) == values).all()
    assert (applied("add.rn.ftz.f32 %0, %1, 0f00000000", ("f32",), "f32", [values]) == 0).all()


def test_conversions_to_integers_saturate() -> None:
    values = numbers("f32", 1)
    values[:4] = [3e9, -3e9, 2.5, -2.5]
    found = applied("cvt.rzi.s32.f32 %0, %1", ("f32",), "s32", [values])
    expected = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0, posinf=2.0**31, neginf=-(2.0**31)))
    assert found.tolist() == expected.clip(-(2.0**31), 2.0**31 - 1).astype(np.int64).tolist()


def test_bfloat16_and_float16_round_to_nearest_even() -> None:
    values = numbers("f32", 1)
    found = applied("cvt.rn.bf16.f32 %0, %1", ("f32",), "b16", [values])
    finite = np.isfinite(values)
    np.testing.assert_array_equal(found[finite], half.stored(values, dtypes.bfloat16)[finite])
    found = applied("cvt.rn.f16.f32 %0, %1", ("f32",), "f16", [values])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, values.astype(np.float16))


def test_pairs_of_float16_are_added_and_negated() -> None:
    a, b = (numbers("f16", seed) for seed in (1, 2))
    pairs = [np.repeat(each, 2).view(np.uint32) for each in (a, b)]
    found = applied("add.rn.f16x2 %0, %1, %2", ("b32", "b32"), "b32", pairs).view(np.float16)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, np.repeat(a + b, 2))
    found = applied("neg.f16x2 %0, %1", ("b32",), "b32", pairs[:1]).view(np.float16)
    np.testing.assert_array_equal(found, np.repeat(-a, 2))


@pytest.mark.parametrize("instruction", ["add.f32", "fma.f32", "ex2.approx.f32", "tex.1d"])
def test_what_is_not_determined_or_not_known_is_refused(instruction: str) -> None:
    with pytest.raises(Unsupported, match="line 11"):
        launch(kernel(f"{instruction} %r1, %r2, %r3, %r4;\n    ret;"), 1, 1, [np.zeros(1)])
