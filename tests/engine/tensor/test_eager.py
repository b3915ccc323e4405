"""Without a trace, graphs that differ in a number or in where a slice begins share a program; bits are those of a
program of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tiers import tiered
from trainer import TrainerError, engine
from trainer.engine import Tensor
from trainer.engine.graph import dtypes, half
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node
from trainer.engine.graph.simplify import SPECIAL_NUMBERS
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.targets.cpu.device import CpuDevice

NUMBERS = [3.7, 2.5, -8.25, 1e-40, 1e30, 2.0, 255.5, -2.0, 0.5]
WHOLE = [2, 3, 7, 5, 100, 31]
X = np.array([0.5, -1.0, 2.0, 0.0, -0.0, np.inf, np.nan, 1e-40, 7.0, -3.5])
IMAGE = np.arange(6 * 7 * 4).reshape(6, 7, 4)


class Counted(CpuDevice):
    """A device that counts what it compiles."""

    compiled = 0

    def compile(self, *arguments, **options):  # type: ignore[no-untyped-def]
        self.compiled += 1
        return super().compile(*arguments, **options)


@pytest.fixture
def device() -> Iterator[Counted]:
    counted = Counted(threads=1, poison=True)
    with engine.device(counted):
        yield counted


def bits(array: np.ndarray) -> np.ndarray:
    """`array` with one NaN for all: which of them an operation gives is left open by IEEE 754."""
    return np.where(np.isnan(array), np.nan, array) if array.dtype.kind == "f" else array


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert bits(found).tobytes() == bits(expected).tobytes()


# --- numbers ----------------------------------------------------------------------------------------------------------

FLOATS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "add": lambda x, number: x + number,
    "subtract": lambda x, number: number - x,
    "multiply": lambda x, number: x * number,
    "divide": lambda x, number: number / x,
    "remainder": lambda x, number: x % number,
    "power": lambda x, number: engine.abs(x) ** (number + 4),
    "clip": lambda x, number: engine.clip(x, number - 1, number),
    "where": lambda x, number: engine.where(x > number, x, number),
    "two": lambda x, number: (x * number + (number + 5)) * x,
    "full": lambda x, number: engine.full((3, 2), number, dtype=x.dtype),
    "matmul": lambda x, number: (x[None, :] * number) @ engine.full_like(x, number)[:, None],
    "gradient": lambda x, number: engine.gradients(engine.sum(engine.tanh(x * number) * number), [x])[0],
}


@pytest.mark.parametrize("dtype", [engine.float32, engine.float64, engine.bfloat16, engine.float16], ids=repr)
@pytest.mark.parametrize("name", FLOATS)
def test_a_new_number_compiles_nothing(name: str, dtype: DType, device: Counted) -> None:
    x = engine.asarray(X, dtype=dtype)
    FLOATS[name](x, 3.5).numpy()
    compiled = device.compiled
    found = [FLOATS[name](x, number).numpy() for number in (6.25, 11.0, 3.5)]
    assert device.compiled == compiled
    for number, values in zip((6.25, 11.0, 3.5), found, strict=True):
        assert_same_bits(values, of_its_own(FLOATS[name](x, number)))


def of_its_own(tensor: Tensor) -> np.ndarray:
    """The value by a program in which every number is a constant."""
    node = tensor.node
    (storage,) = CpuDevice(threads=1).compile([node]).run([])
    return half.widened(storage.view(), node.dtype) if node.dtype is dtypes.bfloat16 else storage.view().copy()


@pytest.mark.parametrize("dtype", [engine.int32, engine.int64, engine.uint8], ids=repr)
def test_a_new_whole_number_compiles_nothing(dtype: DType, device: Counted) -> None:
    x = np.arange(20)

    def all_of(number: int) -> list[Tensor]:
        y = engine.asarray(x, dtype=dtype)
        return [y + number, y * number, y // number, y % number, y & number, y > number, engine.take(y, number)]

    engine.evaluate(*all_of(3))
    compiled = device.compiled
    for number in WHOLE[:-2]:
        found = all_of(number)
        engine.evaluate(*found)
        expected = [x + number, x * number, x // number, x % number, x & number, x > number, x[number]]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), other)
    assert device.compiled == compiled


def test_numbers_of_values_that_are_read_together_or_late_are_their_own(device: Counted) -> None:
    x = engine.asarray([1.0, 2.0])
    first, second = x * 2.5, x * 3.5
    assert second.tolist() == [3.5, 7.0] and first.tolist() == [2.5, 5.0] and second.tolist() == [3.5, 7.0]
    third, fourth = x * 4.5, x * 5.5
    engine.evaluate(third, fourth)
    assert (third.tolist(), fourth.tolist()) == ([4.5, 9.0], [5.5, 11.0])


def test_threads_that_share_a_program_have_numbers_of_their_own(device: Counted) -> None:
    x = engine.asarray(np.ones(16, np.float32))
    wrong: list[float] = []

    def work(number: float) -> None:
        with engine.device(device):
            for _ in range(200):
                value = (x * number).numpy()
                wrong.extend(value[value != number])

    threads = [threading.Thread(target=work, args=(number,)) for number in (2.5, 3.5, 4.5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


SPECIAL = sorted(float(number) for number in SPECIAL_NUMBERS)
_FLOAT_BINARY = [p.add, p.subtract, p.multiply, p.divide, p.maximum, p.minimum, p.power, p.floor_divide, p.remainder]
_FLOAT_BINARY += [p.equal, p.less]
_INTEGER_BINARY = [p.add, p.subtract, p.multiply, p.maximum, p.minimum, p.power, p.floor_divide, p.remainder, p.equal]
_INTEGER_BINARY += [p.bitwise_and, p.bitwise_or, p.bitwise_xor, p.shift_left, p.shift_right, p.shift_right_logical]
_FLOAT_UNARY = [p.negative, p.abs, p.sqrt, p.sign, p.floor, p.exp, p.log, p.logistic]


def leaf(values: np.ndarray, dtype: DType) -> Node:
    return p.buffer(Storage.of(half.stored(p.cast_values(values, dtype), dtype), dtype))


@pytest.mark.parametrize("build", _FLOAT_BINARY, ids=lambda build: build.__name__)
@pytest.mark.parametrize("dtype", tiered(dtypes.FLOATS, (dtypes.float32, dtypes.bfloat16)), ids=repr)
def test_every_number_gives_the_bits_of_a_constant(
    build: Callable[[Node, Node], Node], dtype: DType, cpu: CpuDevice
) -> None:
    x = leaf(X, dtype)
    numbers = [p.full(x.shape, value, dtype) for value in (*SPECIAL, *NUMBERS)]
    check_bits([[build(x, number), build(number, x), build(p.add(x, x), number)] for number in numbers], cpu)


@pytest.mark.parametrize("build", _INTEGER_BINARY, ids=lambda build: build.__name__)
@pytest.mark.parametrize(
    "dtype", tiered((dtypes.int32, dtypes.int64, dtypes.uint8), (dtypes.int32, dtypes.uint8)), ids=repr
)
def test_every_whole_number_gives_the_bits_of_a_constant(
    build: Callable[[Node, Node], Node], dtype: DType, cpu: CpuDevice
) -> None:
    limits = np.iinfo(dtype.storage)
    x = leaf(np.array([0, 1, 2, 3, 7, 31, 100, limits.min, limits.max], dtype.storage), dtype)
    values = {0, 1, 8, *WHOLE, limits.max, limits.min, max(limits.min, -1), max(limits.min, -7)}
    numbers = [p.full(x.shape, value, dtype) for value in values]
    check_bits([[build(x, number), build(number, x)] for number in numbers], cpu)


def check_bits(groups: list[list[Node]], cpu: CpuDevice) -> None:
    """What `evaluate` gives for a group of nodes at a time, held against one program of all of them in which numbers
    and the beginnings of slices are constants.
    """
    groups = [[node for node in dict.fromkeys(nodes) if node.value is None] for nodes in groups]
    nodes = [node for group in groups for node in group]
    found = [storage for group in groups for storage in cpu.evaluate(group)]
    for node, one, other in zip(nodes, found, cpu.compile(nodes).run([]), strict=True):
        assert_same_bits(*(half.widened(each.view(), node.dtype) for each in (one, other)))


@st.composite
def arithmetic(draw: st.DrawFn) -> list[Node]:
    """Random graphs over a leaf and numbers."""
    dtype = draw(st.sampled_from((dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)))
    x = leaf(X, dtype)
    numbers = st.sampled_from((*SPECIAL, *NUMBERS)).map(lambda value: p.full(x.shape, value, dtype))
    pool = [x, draw(numbers)]
    for _ in range(draw(st.integers(1, 6))):
        nodes = st.one_of(st.sampled_from(pool), numbers)
        if draw(st.booleans()):
            pool.append(draw(st.sampled_from(_FLOAT_BINARY[:-2]))(draw(nodes), draw(nodes)))
        elif draw(st.booleans()):
            a, b = draw(nodes), draw(nodes)
            pool.append(p.where(p.less(a, b), a, b))
        else:
            pool.append(draw(st.sampled_from(_FLOAT_UNARY))(draw(nodes)))
    return pool[-2:]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(nodes=arithmetic())
def test_numbers_as_arguments_keep_the_bits_of_any_graph(nodes: list[Node], cpu: CpuDevice) -> None:
    check_bits([nodes], cpu)


# --- slices -----------------------------------------------------------------------------------------------------------

SLICES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "integer": lambda x, at: x[at],
    "integers": lambda x, at: x[at, at + 1, 3],
    "integer of an integer": lambda x, at: x[at][at + 2],
    "slice": lambda x, at: x[at : at + 2],
    "steps": lambda x, at: x[at : at + 3 : 2, at : at + 4 : 3],
    "slice of a slice": lambda x, at: x[1:, 1:][at : at + 2, at],
    "from the end": lambda x, at: x[-1 - at, ::-1],
    "flipped": lambda x, at: x[::-1, ::-2][at, at : at + 2],
    "transposed": lambda x, at: engine.permute_dims(x, (2, 0, 1))[at, 1:, at],
    "new axes": lambda x, at: x[None, at, :, None][0, at],
    "nothing": lambda x, at: x[at:at, at:],
    "two": lambda x, at: x[at] * x[at + 1] + x[0],
    "reduced": lambda x, at: engine.sum(x[at] * 2, axis=0),
    "concatenated": lambda x, at: engine.concat([x[at : at + 1], x[at + 1 : at + 3]]),
    "one by one": lambda x, at: engine.stack([row[at] for row in x]),
}


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("dtype", [engine.float32, engine.int64, engine.uint8, engine.bool_], ids=repr)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=["row-major", "another layout"])
def test_a_new_offset_compiles_nothing(name: str, dtype: DType, order: tuple[int, ...], device: Counted) -> None:
    if dtype is engine.bool_ and name in ("two", "reduced"):
        pytest.skip("bools don't multiply")
    values = p.cast_values(IMAGE % 3 if dtype is engine.bool_ else IMAGE, dtype)
    storage = Storage.of(values, dtype)
    storage.lay_out(Layout(order))
    with engine.device("reference"):
        expected = [SLICES[name](engine.asarray(values), at).numpy() for at in (0, 1, 2)]
    x = Tensor(p.buffer(storage))
    SLICES[name](x, 0).numpy()
    compiled = device.compiled
    found = [SLICES[name](x, at).numpy() for at in (0, 1, 2)]
    for one, other in zip(found, expected, strict=True):
        assert_same_bits(one, other)
    if name == "nothing":
        return  # its extent differs
    assert device.compiled == compiled


def test_slices_of_bfloat16_begin_at_any_place(device: Counted) -> None:
    x = np.arange(24, dtype=np.float32)
    y = engine.asarray(x, dtype=engine.bfloat16)
    for at in range(5):
        found, expected = (each[at : at + 16].reshape(4, 4) for each in (y, x))
        assert (found @ found)[0, 0].item() == (expected @ expected)[0, 0]  # an integer below 256: exact


def test_slices_of_slices_may_be_many(device: Counted) -> None:
    x = y = engine.asarray(np.arange(400))
    for _ in range(300):
        y = y[1:]
    assert y.numpy().tolist() == list(range(300, 400)) and x[7].item() == 7


def test_a_slice_that_reshapes_rearrange_is_read_right(device: Counted) -> None:
    x = engine.asarray(IMAGE)
    for at in range(3):
        found = x[at : at + 2].reshape(7, 8)[at + 1, 2:5]
        np.testing.assert_array_equal(found.numpy(), IMAGE[at : at + 2].reshape(7, 8)[at + 1, 2:5])


@st.composite
def movements(draw: st.DrawFn) -> list[Node]:
    """Slices, flips, permutations and reshapes of a leaf in any layout, some of them added up."""
    dtype = draw(st.sampled_from((dtypes.float32, dtypes.bfloat16, dtypes.int64, dtypes.uint8)))
    shape = draw(st.lists(st.sampled_from((1, 2, 3, 5, 8)), min_size=1, max_size=4).map(tuple))
    storage = Storage.of(half.stored(p.cast_values(np.arange(np.prod(shape)).reshape(shape), dtype), dtype), dtype)
    storage.lay_out(Layout(tuple(draw(st.permutations(range(len(shape)))))))
    pool = [p.buffer(storage)]
    for _ in range(draw(st.integers(1, 6))):
        pool.append(_moved(draw, draw(st.sampled_from(pool[-3:]))))
    sums = [p.add(a, b) for a in pool[1:] for b in pool if a.shape == b.shape and a is not b]
    return [*pool[1:], *sums[:3]]


def _moved(draw: st.DrawFn, node: Node) -> Node:
    kind = draw(st.sampled_from(("slice", "slice", "flip", "permute", "units", "reshape")))
    if kind == "slice":
        starts = tuple(draw(st.integers(0, extent)) for extent in node.shape)
        stops = tuple(draw(st.integers(start, extent)) for start, extent in zip(starts, node.shape, strict=True))
        return p.slice_(node, starts, stops, tuple(draw(st.integers(1, 3)) for _ in starts))
    if kind == "flip":
        return p.flip(node, tuple(axis for axis in range(node.ndim) if draw(st.booleans())))
    if kind == "permute":
        return p.permute(node, tuple(draw(st.permutations(range(node.ndim)))))
    if kind == "units":
        return p.reshape(node, (1, *(extent for extent in node.shape if extent != 1), 1))
    return p.reshape(node, (2, node.size // 2) if node.size % 2 == 0 else (node.size,))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(nodes=movements())
def test_offsets_as_arguments_keep_the_bits_of_any_graph(nodes: list[Node], cpu: CpuDevice) -> None:
    check_bits([nodes], cpu)


# --- what stays as it was ---------------------------------------------------------------------------------------------


def test_derivatives_pass_slices_and_numbers(device: Counted) -> None:
    x = np.arange(12.0).reshape(3, 4)
    for at, number in ((0, 2.5), (1, 3.5), (2, 0.0), (1, 1.0)):
        y = engine.asarray(x)
        (found,) = engine.gradients(engine.sum(y[at, 1:] ** 2 * number), [y])
        expected = np.zeros((3, 4))
        expected[at, 1:] = 2 * x[at, 1:] * number
        np.testing.assert_array_equal(found.numpy(), expected)


def test_a_number_in_a_trace_is_a_constant(device: Counted) -> None:
    x = engine.asarray([1.0, 2.0])

    def step(values: Tensor, number: float) -> Tensor:
        return values * number

    traced = engine.trace(step)
    assert (traced(x, 2.5).tolist(), (x * 3.5).tolist()) == ([2.5, 5.0], [3.5, 7.0])
    assert traced(x, 2.5).tolist() == [2.5, 5.0]
    with pytest.raises(TrainerError, match="number"):
        traced(x, 3.5)


def test_a_value_without_memory_is_refused_before_anything_runs(device: Counted) -> None:
    kept: list[Tensor] = []

    def step(values: Tensor) -> Tensor:
        kept.append(values * 2.5)
        return values

    engine.trace(step)(engine.asarray([1.0]))
    with pytest.raises(TrainerError, match="has no value outside"):
        (kept[0] * 3.5).numpy()


def test_a_program_is_kept_while_others_come_and_go(device: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.engine.targets.cpu.device.CACHED_PROGRAMS", 3)
    x = engine.asarray(np.arange(8.0))
    for extent in range(1, 7):
        x[:extent].numpy()
        (x * 2.5).numpy()
    compiled = device.compiled
    (x * 3.5).numpy()
    assert compiled == 7 == device.compiled
