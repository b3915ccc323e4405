"""Every public function of arrays against NumPy, from a table: shapes, strides, dtypes, special values, derivatives.

What the table has not is tested in the file that `ELSEWHERE` names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.derivatives import check_derivatives
from tests.engine.numbers import numbers
from trainer import engine
from trainer.engine import functions

FOLDER = Path(__file__).parent
SHAPES = ((), (0,), (1,), (7,), (2, 0, 3), (4, 5))
"""Of operations on elements."""
VOLUMES = ((3, 1, 4), (2, 5, 3), (1, 1, 1))
"""Of operations along axes."""
FLOATS, SIGNED, UNSIGNED, BOOL, COMPLEX = (
    ("float32", "float64"),
    ("int8", "int64"),
    ("uint8",),
    ("bool",),
    ("complex128",),
)
INTEGERS = SIGNED + UNSIGNED
REAL = FLOATS + INTEGERS
TOLERANCE = {"float32": 4e-7, "float64": 2e-15, "complex128": 1e-14}


@dataclass(frozen=True)
class Case:
    """A function, NumPy's, the dtypes that both take, and where in float64 it is smooth (None: has no derivative).

    `count` arrays go in. `exact`: the same bits. `finite`: no special values. `limits`: of whole numbers.
    """

    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    dtypes: tuple[str, ...] = FLOATS
    smooth: tuple[float, float] | None = None
    count: int = 1
    exact: bool = False
    finite: bool = False
    limits: tuple[int, int] | None = None
    shapes: tuple[tuple[int, ...], ...] = SHAPES


def same(name: str, dtypes: tuple[str, ...] = FLOATS, **further: Any) -> Case:
    """A function that NumPy has under the same name."""
    return Case(getattr(engine, name), getattr(np, name), dtypes, **further)


def along(name: str, dtypes: tuple[str, ...] = FLOATS, numpy: str = "", **options: Any) -> Case:
    """A function along axes, with options that both take."""
    kept = {key: options.pop(key) for key in ("smooth", "exact", "finite") if key in options}
    return Case(
        lambda x: getattr(engine, name)(x, **options),
        lambda x: getattr(np, numpy or name)(x, **options),
        dtypes,
        shapes=VOLUMES,
        **kept,
    )


def moved(ours: Callable[..., Any], numpy: Callable[..., Any], count: int = 1, **further: Any) -> Case:
    """A function that moves elements."""
    return Case(
        ours,
        numpy,
        (*REAL, *BOOL, *COMPLEX),
        count=count,
        exact=True,
        shapes=VOLUMES,
        **{"smooth": (-2.0, 2.0), **further},
    )


EVERYWHERE, POSITIVE, INSIDE = (-2.0, 2.0), (0.3, 3.0), (-0.9, 0.9)
ROUNDING = (0.1, 0.4)
"""Between whole numbers, where rounding is flat."""

ELEMENTS = {
    **{name: same(name, FLOATS, smooth=EVERYWHERE) for name in ("exp", "expm1", "sin", "cos", "sinh", "cosh", "tanh")},
    **{name: same(name, FLOATS, smooth=EVERYWHERE) for name in ("asinh", "atan")},
    **{name: same(name, FLOATS, smooth=POSITIVE) for name in ("log", "log1p", "log2", "log10", "sqrt", "reciprocal")},
    **{name: same(name, FLOATS, smooth=INSIDE) for name in ("asin", "acos", "atanh", "tan")},
    "acosh": same("acosh", smooth=(1.2, 3.0)),
    "logistic": Case(
        engine.logistic, lambda x: (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype), smooth=EVERYWHERE
    ),
    "erf": Case(engine.erf, lambda x: np.vectorize(math.erf, otypes=[x.dtype])(x), smooth=EVERYWHERE),
    "abs": same("abs", REAL + COMPLEX, smooth=POSITIVE),
    "sign": same("sign", REAL, smooth=POSITIVE, exact=True),
    "negative": same("negative", REAL + COMPLEX, smooth=EVERYWHERE, exact=True),
    "positive": same("positive", REAL + COMPLEX, smooth=EVERYWHERE, exact=True),
    "square": same("square", REAL + COMPLEX, smooth=EVERYWHERE),
    **{name: same(name, FLOATS, smooth=ROUNDING, exact=True) for name in ("ceil", "floor", "round", "trunc")},
    **{name: same(name, REAL, exact=True) for name in ("isfinite", "isinf", "isnan")},
    "signbit": same("signbit", exact=True),
    **{name: same(name, REAL + COMPLEX, exact=True) for name in ("real", "imag", "conj")},
    "logical_not": same("logical_not", BOOL, exact=True),
    "bitwise_invert": same("bitwise_invert", INTEGERS + BOOL, exact=True),
    **{name: same(name, REAL + COMPLEX, smooth=EVERYWHERE, count=2) for name in ("add", "subtract", "multiply")},
    "divide": same("divide", FLOATS, smooth=POSITIVE, count=2),
    "floor_divide": same("floor_divide", REAL, count=2, exact=True),
    "remainder": same("remainder", REAL, count=2),
    "pow": same("pow", REAL, smooth=POSITIVE, count=2, limits=(0, 5)),
    **{name: same(name, REAL, smooth=EVERYWHERE, count=2, exact=True) for name in ("maximum", "minimum")},
    **{name: same(name, REAL + BOOL, count=2, exact=True) for name in ("equal", "not_equal")},
    **{name: same(name, REAL, count=2, exact=True) for name in ("less", "less_equal", "greater", "greater_equal")},
    **{name: same(name, BOOL, count=2, exact=True) for name in ("logical_and", "logical_or", "logical_xor")},
    **{name: same(name, INTEGERS + BOOL, count=2, exact=True) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{
        name: same(name, INTEGERS, count=2, exact=True, limits=(0, 7))
        for name in ("bitwise_left_shift", "bitwise_right_shift")
    },
    **{name: same(name, FLOATS, smooth=POSITIVE, count=2) for name in ("atan2", "hypot", "logaddexp")},
    "copysign": same("copysign", smooth=POSITIVE, count=2, exact=True),
    "nextafter": same("nextafter", count=2, exact=True),
    "clip": Case(lambda x: engine.clip(x, 0, 3), lambda x: np.clip(x, 0, 3), REAL, POSITIVE, exact=True),
    "where": Case(
        lambda x, y: engine.where(engine.equal(x, y), x, y),
        lambda x, y: np.where(np.equal(x, y), x, y),
        REAL + COMPLEX,
        EVERYWHERE,
        2,
        exact=True,
    ),
    "isin": Case(engine.isin, np.isin, REAL + BOOL, count=2, exact=True),
    "astype": Case(lambda x: engine.astype(x, engine.int16), lambda x: x.astype(np.int16), INTEGERS + BOOL, exact=True),
    "zeros_like": same("zeros_like", REAL + BOOL, exact=True),
    "ones_like": same("ones_like", REAL + BOOL, exact=True),
    "empty_like": Case(engine.empty_like, np.zeros_like, REAL + BOOL, exact=True),
    "full_like": Case(lambda x: engine.full_like(x, 1), lambda x: np.full_like(x, 1), REAL, exact=True),
    "count_nonzero": same("count_nonzero", REAL + BOOL, exact=True),
}

REDUCTIONS = {
    f"{name} {options}": along(name, dtypes, **options, **kept)
    for options in ({"axis": 0}, {"axis": -1}, {"axis": (0, 2), "keepdims": True}, {})
    for name, dtypes, kept in (
        ("sum", REAL + BOOL + COMPLEX, {"smooth": EVERYWHERE, "finite": True}),
        ("prod", REAL + COMPLEX, {"smooth": EVERYWHERE, "finite": True}),
        ("mean", FLOATS, {"smooth": EVERYWHERE, "finite": True}),
        ("var", FLOATS, {"smooth": EVERYWHERE, "finite": True}),
        ("std", FLOATS, {"smooth": EVERYWHERE, "finite": True}),
        ("max", REAL + BOOL, {"smooth": EVERYWHERE, "exact": True}),
        ("min", REAL + BOOL, {"smooth": EVERYWHERE, "exact": True}),
        ("all", REAL + BOOL, {"exact": True}),
        ("any", REAL + BOOL, {"exact": True}),
    )
}
ALONG = {
    **REDUCTIONS,
    **{f"{name} {axis}": along(name, REAL, axis=axis, exact=True) for axis in (0, -1) for name in ("argmax", "argmin")},
    **{
        f"{name} {axis}": along(name, REAL, axis=axis, smooth=EVERYWHERE, finite=True)
        for axis in (0, -1)
        for name in ("cumulative_sum", "cumulative_prod", "diff")
    },
    **{
        f"{name} {axis}": along(name, REAL + BOOL, axis=axis, **kept)
        for axis in (0, -1)
        for name, kept in (("sort", {"smooth": EVERYWHERE}),)
    },
    "argsort": Case(
        engine.argsort, lambda x: np.argsort(x, axis=-1, kind="stable"), REAL + BOOL, exact=True, shapes=VOLUMES
    ),
    "median": along("median", FLOATS, axis=-1, smooth=EVERYWHERE, finite=True),
    "quantile": Case(
        lambda x: engine.quantile(x, 0.3, axis=0),
        lambda x: np.quantile(x, 0.3, axis=0).astype(x.dtype),
        FLOATS,
        EVERYWHERE,
        finite=True,
        shapes=VOLUMES,
    ),
    "tril": moved(lambda x: engine.tril(x, k=-1), lambda x: np.tril(x, -1)),
    "triu": moved(lambda x: engine.triu(x, k=1), lambda x: np.triu(x, 1)),
    "reshape": moved(lambda x: engine.reshape(x, (-1,)), lambda x: np.reshape(x, -1)),
    "permute_dims": moved(lambda x: engine.permute_dims(x, (2, 0, 1)), lambda x: np.permute_dims(x, (2, 0, 1))),
    "matrix_transpose": moved(engine.matrix_transpose, np.matrix_transpose),
    "moveaxis": moved(lambda x: engine.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    "expand_dims": moved(lambda x: engine.expand_dims(x, axis=1), lambda x: np.expand_dims(x, 1)),
    "squeeze": moved(lambda x: engine.squeeze(x[:, :1], axis=1), lambda x: np.squeeze(x[:, :1], 1)),
    "broadcast_to": moved(lambda x: engine.broadcast_to(x, (2, *x.shape)), lambda x: np.broadcast_to(x, (2, *x.shape))),
    "broadcast_arrays": moved(
        lambda x, y: engine.concat(engine.broadcast_arrays(x, y[:1])),
        lambda x, y: np.concatenate(np.broadcast_arrays(x, y[:1])),
        2,
    ),
    "concat": moved(lambda x, y: engine.concat([x, y], axis=1), lambda x, y: np.concatenate([x, y], 1), 2),
    "stack": moved(lambda x, y: engine.stack([x, y], axis=-1), lambda x, y: np.stack([x, y], -1), 2),
    "unstack": moved(lambda x: engine.unstack(x, axis=1)[-1], lambda x: np.unstack(x, axis=1)[-1]),
    "split": moved(lambda x: engine.split(x, 2, axis=-1)[0], lambda x: x[..., :2]),
    "flip": moved(lambda x: engine.flip(x, axis=(0, -1)), lambda x: np.flip(x, (0, -1))),
    "roll": moved(lambda x: engine.roll(x, (1, -2), axis=(0, 2)), lambda x: np.roll(x, (1, -2), (0, 2))),
    "repeat": moved(lambda x: engine.repeat(x, 2, axis=1), lambda x: np.repeat(x, 2, 1)),
    "tile": moved(lambda x: engine.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    "take": moved(lambda x: engine.take(x, engine.asarray([0, -1]), axis=1), lambda x: np.take(x, [0, -1], 1)),
    "take_along_axis": moved(
        lambda x: engine.take_along_axis(x, engine.zeros((1, 1, 2), dtype=engine.int64), axis=2),
        lambda x: np.take_along_axis(x, np.zeros((1, 1, 2), np.int64), 2),
    ),
    "pad": moved(lambda x: engine.pad(x, ((1, 0), (0, 2), (1, 1))), lambda x: np.pad(x, ((1, 0), (0, 2), (1, 1)))),
    "windows": moved(lambda x: engine.windows(x, 1, axis=1), lambda x: x[..., None]),
    "meshgrid": moved(
        lambda x, y: engine.concat(engine.meshgrid(engine.reshape(x, (-1,)), engine.reshape(y, (-1,)))),
        lambda x, y: np.concatenate(np.meshgrid(x, y)),
        2,
    ),
    "nonzero": Case(
        lambda x: engine.nonzero(x)[-1], lambda x: np.nonzero(x)[-1], REAL + BOOL, exact=True, shapes=VOLUMES
    ),
    "matmul": Case(
        lambda x, y: engine.matmul(x, engine.matrix_transpose(y)),
        lambda x, y: x @ np.swapaxes(y, -1, -2),
        REAL + COMPLEX,
        EVERYWHERE,
        2,
        finite=True,
        shapes=VOLUMES,
    ),
    "vecdot": Case(engine.vecdot, np.vecdot, REAL + COMPLEX, EVERYWHERE, 2, finite=True, shapes=VOLUMES),
    "tensordot": Case(
        lambda x, y: engine.tensordot(x, y, axes=((0, 2), (0, 2))),
        lambda x, y: np.tensordot(x, y, ((0, 2), (0, 2))),
        REAL + COMPLEX,
        EVERYWHERE,
        2,
        finite=True,
        shapes=VOLUMES,
    ),
    "einsum": Case(
        lambda x, y: engine.einsum("abc,adc->bd", x, y),
        lambda x, y: np.einsum("abc,adc->bd", x, y),
        FLOATS,
        EVERYWHERE,
        2,
        finite=True,
        shapes=VOLUMES,
    ),
}
TABLE = ELEMENTS | ALONG

ELSEWHERE = {
    "../tracing/test_shards.py": ("shard_sum",),
    "test_field_operations.py": ("fold", "one_hot", "scatter", "segment_sum", "unfold"),
    "test_convolution.py": ("average_pool", "convolution", "convolution_transpose", "max_pool"),
    "test_functions.py": ("arange", "bincount", "eye", "full", "linspace", "moments", "ones"),
    "test_sorting.py": (
        "searchsorted",
        "suppress",
        "top_k",
        "unique_all",
        "unique_counts",
        "unique_inverse",
        "unique_values",
    ),
    "test_standard.py": ("broadcast_shapes", "finfo", "iinfo", "isdtype", "__array_namespace_info__"),
    "test_conversion.py": ("asarray", "from_dlpack"),
    "../host/test_host_call.py": ("host_call",),
    "../test_custom.py": ("custom",),
    "../test_scan.py": ("scan",),
    "test_linalg.py": ("linalg",),
    "test_fft.py": ("fft",),
}
NO_VALUES = {"barrier", "stop_gradient", "empty", "zeros", "resample"}


def given(case: Case, dtype: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The case's arrays: special values, ties and limits among them, where it takes such."""
    random = np.random.default_rng(len(shape))
    if dtype in COMPLEX:
        return [random.normal(size=shape) + 1j * random.normal(size=shape) for _ in range(case.count)]
    if dtype in FLOATS and case.finite:
        return [random.normal(size=shape).astype(dtype) for _ in range(case.count)]
    arrays = [np.asarray(numbers(dtype, *shape, seed=seed)) for seed in range(case.count)]
    if dtype in INTEGERS and case.limits:
        arrays[-1] = random.integers(*case.limits, shape).astype(dtype)
    return [np.asarray(array) for array in arrays]


def arranged(arrays: list[np.ndarray]) -> Iterator[tuple[list[Any], list[np.ndarray]]]:
    """The arrays as tensors and as they are: dense, with negative strides, and where they have two axes transposed."""
    tensors = [engine.asarray(array) for array in arrays]
    yield tensors, arrays
    if arrays[0].ndim:
        yield [tensor[..., ::-1] for tensor in tensors], [array[..., ::-1] for array in arrays]
    if arrays[0].ndim > 1:
        yield (
            [engine.permute_dims(tensor, tuple(range(tensor.ndim))[::-1]) for tensor in tensors],
            [array.T for array in arrays],
        )


def check_values(case: Case, shapes: tuple[tuple[int, ...], ...]) -> None:
    for dtype in case.dtypes:
        for shape in shapes:
            for tensors, arrays in arranged(given(case, dtype, shape)):
                found = case.ours(*tensors)
                with np.errstate(all="ignore"):
                    expected = np.asarray(case.numpy(*arrays))
                what = f"{dtype}{list(shape)}"
                assert (found.shape, found.dtype.name) == (expected.shape, expected.dtype.name), what
                if case.exact or expected.dtype.kind not in "fc":
                    np.testing.assert_array_equal(found.numpy(), expected, err_msg=what)
                    if expected.dtype.kind == "f":
                        is_zero = expected == 0
                        np.testing.assert_array_equal(np.signbit(found.numpy()[is_zero]), np.signbit(expected[is_zero]))
                else:
                    relative = TOLERANCE[expected.dtype.name] * (16 if case.finite else 2)
                    absolute = relative * 4 if case.finite else np.finfo(np.float32).tiny
                    np.testing.assert_allclose(found.numpy(), expected, relative, absolute, err_msg=what)


@pytest.mark.full
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_values_equal_numpys(name: str, device: str) -> None:
    case = TABLE[name]
    with engine.device(device):  # kernels, which take longer to compile, of two shapes
        check_values(case, case.shapes if device == "reference" else case.shapes[-2:])


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name, case in TABLE.items() if case.smooth])
def test_first_and_second_derivatives(name: str) -> None:
    case = TABLE[name]
    shape = (3, 4) if case.shapes is SHAPES else (2, 3, 4)
    values = [np.random.default_rng(seed).uniform(*(case.smooth or ()), shape) for seed in range(case.count)]
    check_derivatives(case.ours, *values)


KINKS: dict[str, tuple[Callable[[Any], Any], list[float], list[float]]] = {
    "abs at 0": (engine.abs, [0.0, -0.0], [0.0, 0.0]),
    "maximum of equal ones": (lambda x: engine.maximum(x, engine.asarray([1.0, 2.0])), [1.0, 3.0], [0.5, 1.0]),
    "minimum of equal ones": (lambda x: engine.minimum(x, engine.asarray([1.0, 2.0])), [1.0, 3.0], [0.5, 0.0]),
    "clip at its ends": (lambda x: engine.clip(x, 0.0, 1.0), [0.0, 1.0, 0.5], [0.5, 0.5, 1.0]),
    "max of equal ones": (engine.max, [2.0, 2.0, 1.0], [0.5, 0.5, 0.0]),
    "min of equal ones": (engine.min, [2.0, 1.0, 1.0], [0.0, 0.5, 0.5]),
    "median of equal ones": (engine.median, [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]),
    "sign": (engine.sign, [0.0, 2.0], [0.0, 0.0]),
    "floor at a whole number": (engine.floor, [1.0, 1.5], [0.0, 0.0]),
    "prod with a zero": (engine.prod, [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
    "hypot at 0": (lambda x: engine.hypot(x, engine.zeros(2)), [0.0, 3.0], [0.0, 1.0]),
}


@pytest.mark.parametrize("name", KINKS)
def test_derivatives_at_ties_and_kinks_are_as_documented(name: str) -> None:
    function, values, expected = KINKS[name]
    x = engine.asarray(values)
    assert engine.gradients(engine.sum(function(x)), [x])[0].tolist() == expected


def test_every_function_is_tested() -> None:
    named = {name.partition(" ")[0] for name in TABLE} | NO_VALUES
    for file, names in ELSEWHERE.items():
        text = (FOLDER / file).read_text(encoding="utf-8")
        assert not [name for name in names if name not in text], file
        named |= set(names)
    missing = sorted(set(functions.__all__) - named)
    assert not missing, "add them to the table, or name the file that tests them"
