"""Random inputs and attributes for every primitive: `samples("add")` is a hypothesis strategy of `Sample`s.

Extents include 0 and 1; inputs lie densely, in another physical order, or are views (transposed, flipped, every second
element, repeated); floats include zeros of both signs, infinities, NaN and ties where the primitive defines them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from trainer.engine.graph import dtypes, half
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, make_node
from trainer.engine.graph.primitives import TABLE
from trainer.engine.graph.storage import Layout, Storage

FLOATS = dtypes.FLOATS
INTEGERS = dtypes.UNSIGNED + dtypes.SIGNED
NUMBERS = INTEGERS + FLOATS
REAL = (dtypes.bool_, *NUMBERS)
ARRANGEMENTS = ("dense", "dense", "layout", "transposed", "flipped", "sliced", "repeated")


@dataclass(frozen=True)
class Array:
    """Values of an input (16-bit floats as float32) and how they lie in memory."""

    values: np.ndarray
    dtype: DType
    arrangement: str = "dense"

    def node(self) -> Node:
        """A leaf, or a view of one, that has these values."""
        values, axes = self.values, tuple(range(self.values.ndim))
        if self.arrangement == "transposed":
            return p.permute(self._leaf(np.transpose(values)), axes[::-1])
        if self.arrangement == "flipped":
            return p.flip(self._leaf(np.flip(values)), axes)
        if self.arrangement == "sliced":
            wide = np.zeros([2 * extent + 1 for extent in values.shape], values.dtype)
            inside = tuple(slice(1, 2 * extent, 2) for extent in values.shape)
            wide[inside] = values
            bounds = ((1,) * values.ndim, tuple(2 * extent or 1 for extent in values.shape), (2,) * values.ndim)
            return p.slice_(self._leaf(wide), *bounds)
        if self._is_repeated:
            return p.expand(self._leaf(values[..., :1]), values.shape)
        return self._leaf(values)

    @property
    def held(self) -> np.ndarray:
        """The values that the node has: the arrangement may repeat the first one along the last axis."""
        return np.broadcast_to(self.values[..., :1], self.values.shape) if self._is_repeated else self.values

    @property
    def _is_repeated(self) -> bool:
        return self.arrangement == "repeated" and self.values.ndim > 0 and self.values.shape[-1] > 0

    def _leaf(self, values: np.ndarray) -> Node:
        storage = Storage.of(half.stored(values, self.dtype), self.dtype)
        if self.arrangement == "layout":
            storage.lay_out(Layout(tuple(range(values.ndim))[::-1]))
        return p.buffer(storage)


@dataclass(frozen=True)
class Sample:
    """One application of a primitive."""

    name: str
    inputs: tuple[Array, ...]
    attributes: tuple[Any, ...] = ()

    def node(self) -> Node:
        """The primitive applied to the inputs; built again each time."""
        return make_node(TABLE[self.name], tuple(array.node() for array in self.inputs), self.attributes)

    def arrays(self) -> list[np.ndarray]:
        """The values of the inputs."""
        return [array.held for array in self.inputs]


def samples(name: str) -> SearchStrategy[Sample]:
    """Samples of the primitive `name`. Every primitive but the leaf has some."""
    return _STRATEGIES[name]()


# --- parts ------------------------------------------------------------------------------------------------------------

shapes = st.lists(st.sampled_from((0, 1, 1, 2, 3, 5, 8, 17)), max_size=4).map(tuple)
filled_shapes = st.lists(st.sampled_from((1, 2, 3, 5, 8)), min_size=1, max_size=4).map(tuple)
seeds = st.integers(0, 2**32 - 1)

_SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-3, 1e3])


def values_of(
    dtype: DType, shape: tuple[int, ...], seed: int, *, low: int = -100, high: int = 100, special: bool = True
) -> np.ndarray:
    """Random values of `dtype`; floats are normal with standard deviation 2, a few special ones among them."""
    random = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return random.random(shape) < 0.5
    if dtype.is_integer:
        limits = np.iinfo(dtype.storage)
        return random.integers(max(low, limits.min), min(high, limits.max), shape).astype(dtype.storage)
    if dtype.is_complex:
        parts = [values_of(dtype.part, shape, seed + part, special=special) for part in (0, 1)]
        return (parts[0] + np.array(1j, dtype.storage) * np.nan_to_num(parts[1], posinf=1, neginf=1)).astype(
            dtype.storage
        )
    values = random.standard_normal(shape) * 2
    if special:
        values = np.where(random.random(shape) < 0.2, random.choice(_SPECIAL, shape), values)
    return rounded(values, dtype)


def rounded(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Floats rounded to `dtype`, 16-bit ones as float32."""
    return half.rounded(np.asarray(values), dtype)


@st.composite
def arrays(
    draw: DrawFn, dtype: DType, shape: tuple[int, ...], *, low: int = -100, high: int = 100, special: bool = True
) -> Array:
    """An input of `dtype` and `shape` in any arrangement."""
    values = values_of(dtype, shape, draw(seeds), low=low, high=high, special=special)
    return Array(values, dtype, draw(st.sampled_from(ARRANGEMENTS)))


def _axes(rank: int) -> SearchStrategy[tuple[int, ...]]:
    return st.sets(st.integers(0, rank - 1), min_size=1).map(lambda axes: tuple(sorted(axes)))


# --- element-wise -----------------------------------------------------------------------------------------------------

_KINDS: dict[str, tuple[DType, ...]] = {
    **dict.fromkeys(("negative", "abs", "sign", "add", "subtract", "multiply", "maximum", "minimum"), NUMBERS),
    **dict.fromkeys(("floor_divide", "remainder", "less", "less_equal"), NUMBERS),
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "erf", "logistic"), FLOATS),
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "isfinite", "isnan", "isinf", "divide"), FLOATS),
    **dict.fromkeys(("logical_not", "logical_and", "logical_or", "logical_xor"), (dtypes.bool_,)),
    **dict.fromkeys(("bitwise_invert", "bitwise_and", "bitwise_or", "bitwise_xor"), INTEGERS),
    **dict.fromkeys(("equal", "not_equal"), REAL),
    "stop_gradient": dtypes.ALL,
    **dict.fromkeys(("atan2", "copysign"), FLOATS),
    **dict.fromkeys(("nextafter", "complex"), (dtypes.float32, dtypes.float64)),
    **dict.fromkeys(("real", "imag"), dtypes.COMPLEX),
}
_BINARY = frozenset(
    {"add", "subtract", "multiply", "divide", "maximum", "minimum", "floor_divide", "remainder", "equal", "not_equal"}
    | {"atan2", "copysign", "nextafter", "complex"}
    | {"less", "less_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"}
)


def _elementwise(name: str) -> Callable[[], SearchStrategy[Sample]]:
    @st.composite
    def build(draw: DrawFn) -> Sample:
        dtype, shape = draw(st.sampled_from(_KINDS[name])), draw(shapes)
        count = 2 if name in _BINARY else 1
        return Sample(name, tuple(draw(arrays(dtype, shape)) for _ in range(count)))

    return build


@st.composite
def _power(draw: DrawFn) -> Sample:
    dtype, shape = draw(st.sampled_from(NUMBERS)), draw(shapes)
    base, exponent = draw(arrays(dtype, shape, low=-5, high=6)), draw(arrays(dtype, shape, low=-2, high=6))
    return Sample("power", (base, exponent))


def _shift(name: str) -> Callable[[], SearchStrategy[Sample]]:
    @st.composite
    def build(draw: DrawFn) -> Sample:
        dtype, shape = draw(st.sampled_from(INTEGERS)), draw(shapes)
        amount = draw(arrays(dtype, shape, low=0, high=8 * dtype.itemsize))
        return Sample(name, (draw(arrays(dtype, shape)), amount))

    return build


@st.composite
def _where(draw: DrawFn) -> Sample:
    dtype, shape = draw(st.sampled_from(dtypes.ALL)), draw(shapes)
    return Sample("where", (draw(arrays(dtypes.bool_, shape)), draw(arrays(dtype, shape)), draw(arrays(dtype, shape))))


@st.composite
def _cast(draw: DrawFn) -> Sample:
    source, target, shape = draw(st.sampled_from(REAL)), draw(st.sampled_from(REAL)), draw(shapes)
    return Sample("cast", (draw(arrays(source, shape, low=-300, high=300)),), (target,))


@st.composite
def _barrier(draw: DrawFn) -> Sample:
    return Sample("barrier", (draw(arrays(draw(st.sampled_from(dtypes.ALL)), draw(shapes))),), (0,))


@st.composite
def _anchor(draw: DrawFn) -> Sample:
    return Sample("anchor", tuple(draw(arrays(draw(st.sampled_from(dtypes.ALL)), draw(shapes))) for _ in range(2)))


# --- sources ----------------------------------------------------------------------------------------------------------


@st.composite
def _constant(draw: DrawFn) -> Sample:
    dtype = draw(st.sampled_from(REAL))
    value = values_of(dtype, (), draw(seeds)).item()
    return Sample("constant", (), (p.canonical(value, dtype), dtype))


@st.composite
def _iota(draw: DrawFn) -> Sample:
    shape = draw(shapes.filter(bool))
    return Sample("iota", (), (shape, draw(st.integers(0, len(shape) - 1)), draw(st.sampled_from(NUMBERS))))


@st.composite
def _random_bits(draw: DrawFn) -> Sample:
    words = [Array(np.random.default_rng(draw(seeds)).integers(-(2**31), 2**31, 2).astype(np.int32), dtypes.int32)] * 2
    return Sample("random_bits", tuple(words), (draw(shapes), draw(st.integers(0, 3))))


# --- movement ---------------------------------------------------------------------------------------------------------


@st.composite
def _reshape(draw: DrawFn) -> Sample:
    shape = draw(shapes)
    size = math.prod(shape)
    divisors = [extent for extent in (1, 2, 3, 5, 8) if size and size % extent == 0]
    first = draw(st.sampled_from(divisors)) if divisors else 0
    target = draw(st.sampled_from(((size,), (first, size // first if first else 3), (1, size, 1), shape[::-1])))
    return Sample("reshape", (draw(arrays(draw(st.sampled_from(dtypes.ALL)), shape)),), (target,))


@st.composite
def _permute(draw: DrawFn) -> Sample:
    shape = draw(shapes)
    axes = tuple(draw(st.permutations(range(len(shape)))))
    return Sample("permute", (draw(arrays(draw(st.sampled_from(dtypes.ALL)), shape)),), (axes,))


@st.composite
def _expand(draw: DrawFn) -> Sample:
    shape = draw(shapes)
    grows = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    narrow = tuple(1 if grow else extent for grow, extent in zip(grows, shape, strict=True))
    return Sample("expand", (draw(arrays(draw(st.sampled_from(dtypes.ALL)), narrow)),), (shape,))


@st.composite
def _pad(draw: DrawFn) -> Sample:
    shape, dtype = draw(shapes), draw(st.sampled_from(dtypes.ALL))
    amounts = [tuple(draw(st.integers(0, 2)) for _ in shape) for _ in range(3)]
    value = 0 if dtype.is_complex else values_of(dtype, (), draw(seeds)).item()
    return Sample("pad", (draw(arrays(dtype, shape)),), (*amounts, p.canonical(value, dtype)))


@st.composite
def _slice(draw: DrawFn) -> Sample:
    shape = draw(shapes)
    bounds = []
    for extent in shape:
        start = draw(st.integers(0, extent))
        bounds.append((start, draw(st.integers(start, extent)), draw(st.integers(1, 3))))
    attributes = tuple(tuple(bound[field] for bound in bounds) for field in range(3))
    return Sample("slice", (draw(arrays(draw(st.sampled_from(dtypes.ALL)), shape)),), attributes)


@st.composite
def _flip(draw: DrawFn) -> Sample:
    shape = draw(shapes.filter(bool))
    return Sample("flip", (draw(arrays(draw(st.sampled_from(dtypes.ALL)), shape)),), (draw(_axes(len(shape))),))


@st.composite
def _windows_of(draw: DrawFn) -> Sample:
    shape = draw(filled_shapes)
    axis = draw(st.integers(0, len(shape) - 1))
    size = draw(st.integers(1, min(4, shape[axis])))
    spacing = draw(st.integers(1, max(1, (shape[axis] - 1) // max(1, size - 1))))
    x = draw(arrays(draw(st.sampled_from(dtypes.ALL)), shape))
    return Sample("windows", (x,), (axis, size, draw(st.integers(1, 3)), spacing))


@st.composite
def _concatenate(draw: DrawFn) -> Sample:
    shape, dtype = list(draw(shapes.filter(bool))), draw(st.sampled_from(dtypes.ALL))
    axis = draw(st.integers(0, len(shape) - 1))
    parts = []
    for extent in draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)):
        shape[axis] = extent
        parts.append(draw(arrays(dtype, tuple(shape))))
    return Sample("concatenate", tuple(parts), (axis,))


# --- reductions -------------------------------------------------------------------------------------------------------


def _reduction(name: str) -> Callable[[], SearchStrategy[Sample]]:
    needs_elements = name in ("reduce_max", "reduce_min")

    @st.composite
    def build(draw: DrawFn) -> Sample:
        longer = st.sampled_from(((70, 5), (3, 300)))
        shape = draw(st.one_of(filled_shapes, longer, filled_shapes if needs_elements else shapes.filter(bool)))
        dtype = draw(st.sampled_from(NUMBERS))
        x = draw(arrays(dtype, shape, low=0, high=4, special=needs_elements))
        return Sample(name, (x,), (draw(_axes(len(shape))),))

    return build


def _moments(name: str) -> Callable[[], SearchStrategy[Sample]]:
    @st.composite
    def build(draw: DrawFn) -> Sample:
        shape = draw(st.one_of(filled_shapes, st.sampled_from(((70, 5), (3, 300), (700, 20), (2, 1300)))))
        dtype = draw(st.sampled_from((dtypes.float32, dtypes.float64)))
        x = draw(arrays(dtype, shape, low=0, high=4, special=False))
        return Sample(name, (x,), (draw(_axes(len(shape))),))

    return build


def _position(name: str) -> Callable[[], SearchStrategy[Sample]]:
    @st.composite
    def build(draw: DrawFn) -> Sample:
        shape = draw(st.one_of(filled_shapes, st.just((3, 300))))
        x = draw(arrays(draw(st.sampled_from(NUMBERS)), shape, low=0, high=4))
        return Sample(name, (x,), (draw(st.integers(0, len(shape) - 1)),))

    return build


def _band(draw: DrawFn, extent: int) -> tuple[int, tuple[tuple[int, tuple[float, ...]], ...]]:
    runs = []
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, extent))
        weights = draw(st.lists(st.sampled_from((0.25, -0.5, 1.0, 1 / 3)), max_size=min(4, extent - start)))
        runs.append((start, tuple(weights)))
    return extent, tuple(runs)


@st.composite
def _resample(draw: DrawFn) -> Sample:
    extents = st.integers(0, 6)
    channels = draw(st.sampled_from((0, 1, 3, 16, 35, 64)))
    shape = (draw(st.integers(0, 2)), channels, draw(extents), draw(extents))
    x = draw(arrays(draw(st.sampled_from(FLOATS)), shape, low=-4, high=4, special=False))
    return Sample("resample", (x,), (_band(draw, shape[2]), _band(draw, shape[3])))


@st.composite
def _cumulative_sum(draw: DrawFn) -> Sample:
    shape = draw(shapes.filter(bool))
    x = draw(arrays(draw(st.sampled_from(NUMBERS)), shape, special=False))
    return Sample("cumulative_sum", (x,), (draw(st.integers(0, len(shape) - 1)),))


@st.composite
def _cumulative_prod(draw: DrawFn) -> Sample:
    shape = draw(shapes.filter(bool))
    x = draw(arrays(draw(st.sampled_from(NUMBERS)), shape, low=-2, high=3, special=False))
    return Sample("cumulative_prod", (x,), (draw(st.integers(0, len(shape) - 1)),))


# --- contractions and windows -----------------------------------------------------------------------------------------


@st.composite
def _matmul(draw: DrawFn) -> Sample:
    batch = draw(st.lists(st.integers(1, 3), max_size=2).map(tuple))
    rows, columns, inner = (draw(st.sampled_from((0, 1, 2, 3, 5, 17, 33))) for _ in range(3))
    dtype = draw(st.sampled_from((*FLOATS, dtypes.int32, dtypes.int64)))
    a = draw(arrays(dtype, (*batch, rows, inner), special=False))
    b = draw(arrays(dtype, (*batch, inner, columns), special=False))
    return Sample("matmul", (a, b), (draw(_precision(dtype)),))


def _precision(dtype: DType) -> SearchStrategy[DType | None]:
    """Contractions of float32 may round their operands to 16 bits, and those of 16 bits give float32."""
    if dtype is dtypes.float32:
        return st.sampled_from((None, None, dtypes.bfloat16, dtypes.float16))
    return st.sampled_from((None, None, dtype)) if dtype.is_half else st.none()


@dataclass(frozen=True)
class Geometry:
    """A convolution's shapes and attributes."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    attributes: tuple[Any, ...]

    @property
    def y(self) -> tuple[int, ...]:
        strides, padding, dilation, *_ = self.attributes
        fields = (self.x[2:], self.w[2:], strides, padding, dilation)
        return (
            self.x[0],
            self.w[0],
            *(
                (extent + low + high - spacing * (size - 1) - 1) // stride + 1
                for extent, size, stride, (low, high), spacing in zip(*fields, strict=True)
            ),
        )


@st.composite
def geometries(draw: DrawFn) -> Geometry:
    """Batches from 0, odd images, windows up to 3 x 3, strides, uneven padding, dilation and groups."""
    groups = draw(st.sampled_from((1, 1, 1, 2, 3)))
    window = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    padding = tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(2))
    spatial = tuple(
        max(1, spacing * (size - 1) + 1 - low - high) + draw(st.integers(0, 6))
        for size, spacing, (low, high) in zip(window, dilation, padding, strict=True)
    )
    x = (draw(st.sampled_from((0, 1, 2, 3))), groups * draw(st.sampled_from((1, 2, 3, 18))), *spatial)
    w = (groups * draw(st.sampled_from((1, 2, 3, 18))), x[1] // groups, *window)
    return Geometry(x, w, ((draw(st.integers(1, 2)), draw(st.integers(1, 3))), padding, dilation, groups))


def _convolution(name: str, first: str, second: str, extra: str) -> Callable[[], SearchStrategy[Sample]]:
    @st.composite
    def build(draw: DrawFn) -> Sample:
        geometry, dtype = draw(geometries()), draw(st.sampled_from(FLOATS))
        inputs = tuple(draw(arrays(dtype, getattr(geometry, side), special=False)) for side in (first, second))
        rest = (getattr(geometry, extra)[2:],) if extra else ()
        return Sample(name, inputs, (*geometry.attributes, draw(_precision(dtype)), *rest))

    return build


@st.composite
def _window_argmax(draw: DrawFn) -> Sample:
    window = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    padding = tuple((draw(st.integers(0, size // 2)), draw(st.integers(0, size // 2))) for size in window)
    # with an extent of at least the dilated window no window holds nothing but padding
    spatial = tuple(
        spacing * (size - 1) + 1 + draw(st.integers(0, 6)) for size, spacing in zip(window, dilation, strict=True)
    )
    shape = (draw(st.integers(0, 2)), draw(st.sampled_from((1, 3, 17))), *spatial)
    x = draw(arrays(draw(st.sampled_from(NUMBERS)), shape, low=-3, high=4))
    return Sample(
        "window_argmax", (x,), (window, (draw(st.integers(1, 3)), draw(st.integers(1, 3))), padding, dilation)
    )


def _windows(name: str) -> Callable[[], SearchStrategy[Sample]]:
    @st.composite
    def build(draw: DrawFn) -> Sample:
        sample = draw(_window_argmax())
        if name != "window_max_gradient":
            return Sample(name, sample.inputs, sample.attributes)
        places = TABLE["window_argmax"].reference(sample.attributes, sample.inputs[0].held)
        dtype, spatial = draw(st.sampled_from(FLOATS)), sample.inputs[0].values.shape[2:]
        dy = draw(arrays(dtype, places.shape, special=False))
        return Sample(name, (dy, Array(places, dtypes.int32)), (*sample.attributes, spatial))

    return build


# --- indices ----------------------------------------------------------------------------------------------------------


@st.composite
def _indices(draw: DrawFn, shape: tuple[int, ...], extent: int) -> Array:
    """Indices of an axis of `extent`, a few of them out of range."""
    dtype = draw(st.sampled_from((dtypes.int32, dtypes.int64)))
    return draw(arrays(dtype, shape, low=-2, high=extent + 2))


@st.composite
def _gather(draw: DrawFn) -> Sample:
    shape, places = draw(filled_shapes), draw(st.sampled_from(((), (0,), (1,), (4,), (2, 3))))
    axis = draw(st.integers(0, len(shape) - 1))
    x = draw(arrays(draw(st.sampled_from(dtypes.ALL)), shape))
    return Sample("gather", (x, draw(_indices(places, shape[axis]))), (axis,))


@st.composite
def _scatter_add(draw: DrawFn) -> Sample:
    shape, places = draw(filled_shapes), draw(st.sampled_from(((), (0,), (1,), (4,), (2, 3))))
    axis = draw(st.integers(0, len(shape) - 1))
    updates = (*shape[:axis], *places, *shape[axis + 1 :])
    u = draw(arrays(draw(st.sampled_from(NUMBERS)), updates, special=False))
    return Sample("scatter_add", (u, draw(_indices(places, shape[axis]))), (axis, shape[axis]))


@st.composite
def _take_along(draw: DrawFn) -> Sample:
    shape = draw(filled_shapes)
    axis = draw(st.integers(0, len(shape) - 1))
    places = (*shape[:axis], draw(st.sampled_from((0, 1, 4))), *shape[axis + 1 :])
    x = draw(arrays(draw(st.sampled_from(dtypes.ALL)), shape))
    return Sample("take_along", (x, draw(_indices(places, shape[axis]))), (axis,))


@st.composite
def _scatter_add_along(draw: DrawFn) -> Sample:
    shape = draw(shapes.filter(bool))
    axis, size = draw(st.integers(0, len(shape) - 1)), draw(st.integers(0, 5))
    u = draw(arrays(draw(st.sampled_from(NUMBERS)), shape, special=False))
    return Sample("scatter_add_along", (u, draw(_indices(shape, size))), (axis, size))


@st.composite
def _gather_sum(draw: DrawFn) -> Sample:
    batch, size, taps = draw(st.integers(0, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 5))
    channels, places = draw(st.sampled_from((0, 1, 3, 16, 35))), draw(st.sampled_from((0, 1, 4)))
    dtype = draw(st.sampled_from(FLOATS))
    table = draw(arrays(dtype, (batch, size, channels), special=False))
    weights = draw(arrays(dtype, (batch, places, taps), special=False))
    return Sample("gather_sum", (table, draw(_indices((batch, places, taps), size)), weights))


def _scattering(name: str) -> Callable[[], SearchStrategy[Sample]]:
    @st.composite
    def build(draw: DrawFn) -> Sample:
        shape = draw(shapes.filter(bool))
        axis = draw(st.integers(0, len(shape) - 1))
        size = draw(st.integers(0, min(5, shape[axis])))
        low, high = (-2, 3) if name == "scatter_prod_along" else (-100, 100)
        u = draw(arrays(draw(st.sampled_from(NUMBERS)), shape, low=low, high=high, special=False))
        return Sample(name, (u, draw(_indices(shape, size))), (axis, size))

    return build


# --- order ------------------------------------------------------------------------------------------------------------


@st.composite
def _argsort(draw: DrawFn) -> Sample:
    shape = draw(st.one_of(shapes.filter(bool), st.sampled_from(((2, 70), (300,)))))
    x = draw(arrays(draw(st.sampled_from((dtypes.bool_, *NUMBERS))), shape, low=0, high=6))
    return Sample("argsort", (x,), (draw(st.integers(0, len(shape) - 1)), draw(st.booleans())))


@st.composite
def _sort(draw: DrawFn) -> Sample:
    return Sample("sort", (sample := draw(_argsort())).inputs, sample.attributes)


@st.composite
def _top_k(draw: DrawFn) -> Sample:
    (x,), (axis, descending) = (sample := draw(_argsort())).inputs, sample.attributes
    return Sample("top_k", (x,), (axis, draw(st.integers(0, x.values.shape[axis])), descending))


@st.composite
def _suppress(draw: DrawFn) -> Sample:
    count = draw(st.sampled_from((0, 1, 2, 7, 40)))
    x = draw(arrays(dtypes.bool_, (*draw(shapes)[:2], count, count)))
    values = x.values & (np.random.default_rng(draw(seeds)).random(x.values.shape) < draw(st.sampled_from((0.1, 0.5))))
    return Sample("suppress", (Array(values, x.dtype, x.arrangement),))


_STRATEGIES: dict[str, Callable[[], SearchStrategy[Sample]]] = {
    **{name: _elementwise(name) for name in _KINDS},
    "power": _power,
    **{name: _shift(name) for name in ("shift_left", "shift_right", "shift_right_logical")},
    "where": _where,
    "cast": _cast,
    "barrier": _barrier,
    "anchor": _anchor,
    "constant": _constant,
    "iota": _iota,
    "random_bits": _random_bits,
    "reshape": _reshape,
    "permute": _permute,
    "expand": _expand,
    "pad": _pad,
    "slice": _slice,
    "flip": _flip,
    "windows": _windows_of,
    "concatenate": _concatenate,
    "resample": _resample,
    **{name: _moments(name) for name in ("reduce_mean", "reduce_deviations")},
    **{name: _reduction(name) for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min")},
    **{name: _position(name) for name in ("argmax", "argmin")},
    "cumulative_sum": _cumulative_sum,
    "cumulative_prod": _cumulative_prod,
    "matmul": _matmul,
    "convolution": _convolution("convolution", "x", "w", ""),
    "convolution_input_gradient": _convolution("convolution_input_gradient", "y", "w", "x"),
    "convolution_weight_gradient": _convolution("convolution_weight_gradient", "x", "y", "w"),
    **{name: _windows(name) for name in ("window_argmax", "window_max", "window_max_gradient")},
    "gather": _gather,
    "scatter_add": _scatter_add,
    "take_along": _take_along,
    "scatter_add_along": _scatter_add_along,
    "gather_sum": _gather_sum,
    **{name: _scattering(name) for name in ("scatter_prod_along", "scatter_max_along", "scatter_min_along")},
    "argsort": _argsort,
    "sort": _sort,
    "top_k": _top_k,
    "suppress": _suppress,
}
