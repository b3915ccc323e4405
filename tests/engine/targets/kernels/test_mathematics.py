"""Approximations against extended precision over all exponents, their special values, and that nothing calls out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

from tests.engine.targets.kernels.loop_runner import apply
from trainer.engine.graph.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int32,
    int64,
    uint8,
)
from trainer.engine.program.spec import Instruction
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.kernels import elementwise
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.ir.expression import RENDERERS
from trainer.engine.targets.ir.mathematics import MAXIMUM_ULP
from trainer.engine.targets.ir.operand import Operand

EXTENDED = np.finfo(np.longdouble).nmant > 60
REFERENCES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin,
    "cos": np.cos,
}
DOMAINS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "log": np.abs,
    "log1p": lambda x: np.where(x > -1, x, -x),
}


def all_exponents(dtype: DType, count: int, seed: int = 0) -> np.ndarray:
    """Finite numbers: random bit patterns (every exponent alike) and the range around 1 where functions bend."""
    random = np.random.default_rng(seed)
    kind = dtype.storage.type
    bits = random.integers(0, 256, count * dtype.itemsize, np.uint8).view(kind)
    bent = np.concatenate([random.uniform(-bound, bound, count) for bound in (0.5, 2, 10, 100)])
    values = np.concatenate([bits, bent.astype(kind)])
    return values[np.isfinite(values)]


def units_in_the_last_place(result: np.ndarray, exact: np.ndarray) -> float:
    """The largest error, in spacings of the exact result; results that overflow must be infinite."""
    kind = result.dtype.type
    with np.errstate(over="ignore"):
        rounded = exact.astype(kind)
    normal = np.isfinite(rounded)
    np.testing.assert_array_equal(result[~normal], rounded[~normal])
    spacing = np.spacing(np.maximum(np.abs(rounded[normal]), np.finfo(kind).tiny))
    return float(np.max(np.abs(result[normal].astype(exact.dtype) - exact[normal]) / spacing))


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_error_stays_within_what_is_stated(name: str, dtype: DType) -> None:
    if dtype is float64 and not EXTENDED:
        pytest.skip("long double is no wider than double here")
    x = DOMAINS.get(name, lambda values: values)(all_exponents(dtype, 20_000)).astype(dtype.storage)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype(np.longdouble))
    assert units_in_the_last_place(apply(name, [(dtype, x)], dtype), exact) <= MAXIMUM_ULP[name][dtype is float64]


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_erf_error(dtype: DType) -> None:
    """Against the C library's erf, which may itself be off by one unit in float64."""
    x = all_exponents(dtype, 4_000)
    exact = np.array([math.erf(value) for value in x])
    slack = 1.0 if dtype is float64 else 0.0
    assert units_in_the_last_place(apply("erf", [(dtype, x)], dtype), exact) <= MAXIMUM_ULP["erf"][slack > 0] + slack


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_power_error(dtype: DType) -> None:
    if dtype is float64 and not EXTENDED:
        pytest.skip("long double is no wider than double here")
    x = np.abs(all_exponents(dtype, 20_000))
    x = x[x > np.finfo(x.dtype).tiny]
    limit = 0.99 * np.log(float(np.finfo(x.dtype).max))
    with np.errstate(all="ignore"):
        y = np.random.default_rng(1).uniform(-limit, limit, x.size) / np.log(x.astype(np.float64))
        y = np.where(np.isfinite(y), y, 1.0).astype(x.dtype)
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    result = apply("power", [(dtype, x), (dtype, y)], dtype)
    assert units_in_the_last_place(result, exact) <= MAXIMUM_ULP["power"][dtype is float64]


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_atan2_error(dtype: DType) -> None:
    if dtype is float64 and not EXTENDED:
        pytest.skip("long double is no wider than double here")
    y = all_exponents(dtype, 20_000)
    near = np.random.default_rng(1).uniform(-3, 3, y.size).astype(y.dtype) * np.where(np.abs(y) < 1e30, y, 1)
    for x in (np.random.default_rng(2).permutation(y), near, np.ones_like(y)):
        exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
        kept = np.abs(exact) > np.finfo(dtype.storage).tiny
        result = apply("atan2", [(dtype, y), (dtype, x)], dtype)
        assert units_in_the_last_place(result[kept], exact[kept]) <= MAXIMUM_ULP["atan2"][dtype is float64]


SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 1e30, -1e30, 200.0, -1000.0]


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_special_values(name: str, dtype: DType) -> None:
    x = np.array(SPECIAL, dtype.storage)
    with np.errstate(all="ignore"):
        wanted = REFERENCES[name](x)
    result = apply(name, [(dtype, x)], dtype)
    np.testing.assert_allclose(result, wanted, rtol=1e-6)
    exact = (wanted == 0) | ~np.isfinite(wanted)
    np.testing.assert_array_equal(
        np.signbit(result[exact & (wanted == wanted)]), np.signbit(wanted[exact & (wanted == wanted)])
    )


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", ["power", "floor_divide", "remainder", "atan2", "copysign", "nextafter"])
def test_special_values_of_two_arguments(name: str, dtype: DType) -> None:
    x, y = (grid.ravel() for grid in np.meshgrid(*[np.array(SPECIAL, dtype.storage)] * 2))
    with np.errstate(all="ignore"):
        wanted = getattr(np, {"atan2": "arctan2"}.get(name, name))(x, y)
    result = apply(name, [(dtype, x), (dtype, y)], dtype)
    np.testing.assert_allclose(result, wanted, rtol=0 if name == "nextafter" else 1e-6)
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(wanted[zero]))


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_division_with_remainder_equals_numpy_bit_for_bit(name: str, dtype: DType) -> None:
    x = all_exponents(dtype, 5_000, 1)
    y = np.random.default_rng(2).permutation(x)
    tenths = (np.random.default_rng(3).integers(-99, 99, (2, 5_000)) / 10).astype(dtype.storage)
    x, y = np.concatenate([x, tenths[0]]), np.concatenate([y, tenths[1]])
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, y)
    np.testing.assert_array_equal(apply(name, [(dtype, x), (dtype, y)], dtype), wanted)


ARITHMETIC = {"add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "maximum", "minimum"}
COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
LOGIC = {"logical_and", "logical_or", "logical_xor"}
BITS = {"bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "shift_right_logical"}
OF_FLOATS = {"atan2", "copysign", "nextafter"}
TWO_ARGUMENTS = ARITHMETIC | COMPARISONS | LOGIC | BITS | OF_FLOATS | {"complex"}
PREDICATES = COMPARISONS | LOGIC | {"logical_not", "isfinite", "isnan", "isinf"}


def _complex_of(dtype: DType) -> DType:
    return complex64 if dtype is float32 else complex128


def _one_operation(name: str, dtype: DType) -> LoopKernel:
    """A kernel of `name` alone."""
    dtypes, attributes = [dtype] * (2 if name in TWO_ARGUMENTS else 1), tuple[object, ...]()
    result = bool_ if name in PREDICATES else dtype
    if name == "where":
        dtypes = [bool_, dtype, dtype]
    elif name == "random_bits":
        dtypes, result, attributes = [int32, int32, int64, int32, int32], int32, (0,)
    elif name == "cast":
        result = float64 if dtype is float32 else float32
    elif name == "complex":
        result = _complex_of(dtype)
    elif name in PARTS:
        dtypes = [_complex_of(dtype)]
    body = [Instruction("load", (), each, (number,)) for number, each in enumerate(dtypes)]
    body.append(Instruction(name, tuple(range(len(dtypes))), result, attributes))
    inputs = tuple(Operand(each, "contiguous") for each in dtypes)
    return LoopKernel(1, inputs, tuple(body), ((len(dtypes), Operand(result, "contiguous")),))


INTEGER_ONLY = BITS | {"bitwise_invert"}
PARTS = {"real", "imag"}
FLOAT_ONLY = {*REFERENCES, "erf", "sqrt", "divide", *OF_FLOATS}
OF_COMPLEX = {"complex", *PARTS}


@pytest.mark.parametrize("narrow", [False, pytest.param(True, marks=pytest.mark.full)])
def test_no_operation_calls_outside_its_object(narrow: bool) -> None:
    target = native.host_target(narrow=narrow)
    for name in RENDERERS:
        for dtype in (float32, float64, bfloat16, int32, int64, uint8):
            if (name in INTEGER_ONLY and dtype.is_float) or (name in FLOAT_ONLY and not dtype.is_float):
                continue
            if name in OF_COMPLEX and dtype not in (float32, float64):
                continue
            text = native.assembly(elementwise.render(_one_operation(name, dtype), "kernel"), target)
            called = set(re.findall(r"^\s+(?:call|jmp|bl|b)q?\s+([A-Za-z_][\w.@]*)", text, re.MULTILINE))
            defined = set(re.findall(r"^([A-Za-z_][\w.]*):", text, re.MULTILINE))
            assert called <= defined, f"{name} of {dtype} calls {called - defined}"


@pytest.mark.full
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", [*sorted(REFERENCES), "erf", "power", "floor_divide", "remainder"])
def test_narrow_vectors_give_the_same_bits(name: str, dtype: DType) -> None:
    x = all_exponents(dtype, 20_000)
    arguments = [(dtype, x)]
    if name in ("power", "floor_divide", "remainder"):
        arguments.append((dtype, np.random.default_rng(5).permutation(x)))
    wide, narrow = (apply(name, arguments, dtype, narrow=each) for each in (False, True))
    np.testing.assert_array_equal(wide, narrow)


def test_no_function_is_stated_to_err_by_more_than_two_units() -> None:
    assert max(max(bounds) for bounds in MAXIMUM_ULP.values()) <= 2


@pytest.mark.full
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", [*sorted(REFERENCES), "erf"])
def test_error_of_float32_over_all_numbers(name: str, part: int) -> None:
    """Every 61st bit pattern, in four parts: both signs, all exponents, subnormal and huge arguments among them."""
    exact_of = REFERENCES.get(name, special.erf)
    bits = np.arange(part << 30, (part + 1) << 30, 61, np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    x = DOMAINS.get(name, lambda values: values)(x[np.isfinite(x)])
    with np.errstate(all="ignore"):
        exact = exact_of(x.astype(np.float64))
    assert units_in_the_last_place(apply(name, [(float32, x)], float32), exact) <= MAXIMUM_ULP[name][0]
