"""Kernels for GPUs: bits of reductions, 16-byte accesses, rows that end anywhere, flushing, and refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.engine.targets.ptx.device import EmulatedDevice
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.ptx.lowering import loops
from trainer.engine.targets.ptx.lowering.loops import LoopParameters, candidates, lower_loop

emulated = EmulatedDevice()


@pytest.fixture(scope="module")
def cpu() -> CpuDevice:
    return CpuDevice(threads=1)


def leaf(*shape: int, dtype: dtypes.DType = dtypes.float32, seed: int = 0) -> Node:
    numbers = np.random.default_rng(seed).standard_normal(shape) * 3 + 100
    return p.buffer(Storage.of(numbers.astype(dtype.storage), dtype))


def assert_same_bits(nodes: list[Node], cpu: CpuDevice) -> None:
    for ours, expected in zip(emulated.evaluate(nodes), cpu.evaluate(nodes), strict=True):
        np.testing.assert_array_equal(ours.view(), expected.view())


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3000,), (0,)), ((600, 40), (0,)), ((5, 700, 33), (1,)), ((7, 20, 70), (0, 2)), ((40, 700), (1,))],
)
def test_reductions_in_blocks_have_the_bits_of_the_cpu(
    shape: tuple[int, ...], axes: tuple[int, ...], cpu: CpuDevice
) -> None:
    x = leaf(*shape)
    nodes = [p.reduce_sum(p.multiply(x, x), axes), p.reduce_mean(x, axes), p.reduce_deviations(x, axes)]
    assert_same_bits([*nodes, p.reduce_max(x, axes)], cpu)


def test_the_first_of_equal_elements_has_the_largest_in_a_long_row(cpu: CpuDevice) -> None:
    numbers = np.random.default_rng(0).integers(0, 50, (3, 2000)).astype(np.int32)
    assert_same_bits([p.argmax(p.buffer(Storage.of(numbers, dtypes.int32)), 1)], cpu)


@pytest.mark.parametrize(("rows", "depth", "columns"), [(5, 7, 3), (70, 33, 66)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_have_the_bits_of_the_cpu(rows: int, depth: int, columns: int, dtype: str, cpu: CpuDevice) -> None:
    kind = dtypes.BY_NAME[dtype]
    a, b = leaf(2, depth, rows, dtype=kind), leaf(2, depth, columns, dtype=kind, seed=1)
    product = p.matmul(p.permute(a, (0, 2, 1)), b)
    assert_same_bits([product, p.tanh(p.multiply(product, leaf(2, rows, columns, dtype=kind)))], cpu)


def text_of(node: Node) -> str:
    (launch,) = emulated.lowered([node]).launches
    return emulated.target.assembled(launch)


@pytest.mark.parametrize(("dtype", "accesses"), [("float32", "v4.b32"), ("bfloat16", "v4.b32"), ("float64", "v2.b64")])
def test_a_thread_loads_and_stores_16_bytes(dtype: str, accesses: str) -> None:
    x = leaf(64, 64, dtype=dtypes.BY_NAME[dtype])
    text = text_of(p.add(x, x))
    assert re.findall(r"ld\.global(?:\.nc)?\.(\S+)", text) == [accesses]
    assert re.findall(r"st\.global\.(\S+)", text) == [accesses]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 127, 1023])
def test_a_row_may_end_within_the_elements_of_a_thread(size: int, cpu: CpuDevice) -> None:
    x, y = leaf(size), leaf(size, seed=1)
    assert_same_bits([p.subtract(p.exp(p.divide(x, y)), y)], cpu)


def test_every_candidate_gives_the_same_bits() -> None:
    x = leaf(30, 40)
    lowered = emulated.lowered([p.tanh(x)])
    (launch,) = lowered.launches
    found = []
    for parameters in candidates(launch.work):
        lowered.launches = [lower_loop(launch.work, parameters)]
        program = emulated.compile([p.tanh(x)])
        program.lowered = lowered
        found.append(program.run([])[0].view())
    assert len(found) == 4
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
    assert candidates(launch.work)[0] == LoopParameters(4, 128)


def test_indices_of_64_bits_have_the_same_results(cpu: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of 2**31 elements are too large for a test, so the threshold is lowered."""
    x = leaf(3, 21, 18)
    nodes = [p.permute(x, (2, 0, 1)), p.reduce_sum(p.permute(x, (1, 0, 2)), (0, 2)), p.reduce_deviations(x, (1,))]
    monkeypatch.setattr(loops, "NARROW", 0)
    for node in nodes:
        assert "rem.u64" in text_of(node) or "div.u64" in text_of(node)
    assert_same_bits(nodes, cpu)


def test_traced_programs_flush_subnormal_numbers(cpu: CpuDevice) -> None:
    numbers = np.array([1e-39, -1e-39, 1e-30, 1.0], np.float32)
    x = p.buffer(Storage.of(numbers, dtypes.float32))
    nodes = [p.multiply(x, x), p.add(x, x), p.subtract(x, p.negative(x))]
    flushing = EmulatedDevice(flush=True)
    expected = cpu.compile(nodes, flush=True).run([])
    for ours, wanted in zip(flushing.evaluate(nodes), expected, strict=True):
        np.testing.assert_array_equal(ours.view().view(np.uint32), wanted.view().view(np.uint32))


def test_random_numbers_have_the_bits_of_the_cpu(cpu: CpuDevice) -> None:
    key = p.buffer(Storage.of(np.array([123, 456], np.int32), dtypes.int32))
    counter = p.buffer(Storage.of(np.array([7, 0], np.int32), dtypes.int32))
    assert_same_bits([p.random_bits(key, counter, (37, 11), 2)], cpu)


def test_states_are_updated_in_place() -> None:
    state = Storage.of(np.arange(10, dtype=np.float32), dtypes.float32, is_state=True)
    old = p.buffer(state)
    program = emulated.compile([p.reduce_sum(old, (0,))], [(state, p.multiply(old, old))])
    (total,) = program.run([])
    assert total.view() == 45
    np.testing.assert_array_equal(state.view(), np.arange(10) ** 2)
