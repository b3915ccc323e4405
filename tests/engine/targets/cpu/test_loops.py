"""How loops are split into tasks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.engine.program.graphs import leaf
from trainer import engine
from trainer.engine import Tensor, nn
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType, float32, float64, int32
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.program.loops import copy as copied
from trainer.engine.program.work import Buffer, View
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.kernels.reduction_columns import STRIP_PARTS
from trainer.engine.targets.cpu.loaded_kernels import rendered
from trainer.engine.targets.cpu.lowering import loops
from trainer.engine.targets.cpu.lowering.loops import (
    ENOUGH_TASKS,
    STREAMED_BYTES,
    column_strip,
    in_strips,
    kernel_of,
)
from trainer.engine.targets.reference import ReferenceDevice


@pytest.mark.parametrize(
    ("neighbors", "outer", "blocks", "expected"),
    [(16, 1, 32, 16), (4, 1, 49, 4), (5, 1, 49, 8), (8, 1, 13, 4), (8, 6, 13, 8), (1, 1, 49, 1), (32, 1, 1, 1)],
)
def test_a_task_takes_neighboring_columns_while_enough_tasks_remain(
    neighbors: int, outer: int, blocks: int, expected: int
) -> None:
    parts = neighbors * outer
    strip = column_strip(neighbors, parts, blocks)
    assert strip == expected <= STRIP_PARTS
    assert strip == 1 or -(-parts // strip) * blocks >= ENOUGH_TASKS


LARGE = STREAMED_BYTES // 4 // 1024


def is_streamed(node: Node, updates: list[tuple[Storage, Node]] | None = None) -> list[bool]:
    program = CpuDevice(threads=1).compile([] if updates else [node], updates or [])
    return [kernel_of(launch.work).streamed for launch in program.launches]


def test_large_outputs_in_whole_lines_that_the_loop_does_not_read_are_stored_past_the_caches() -> None:
    assert is_streamed(p.negative(leaf((LARGE, 1024)))) == [True]
    assert is_streamed(p.negative(leaf((LARGE - 1, 1024)))) == [False]
    assert is_streamed(p.negative(p.slice_(leaf((LARGE, 1040)), (0, 0), (LARGE, 1024), (1, 1)))) == [True]
    columns = p.concatenate((leaf((LARGE, 1001)), leaf((LARGE, 2))), 1)  # rows of 1003 elements are no whole lines
    assert is_streamed(columns) == [False, False]
    state = Storage.of(np.zeros((LARGE, 1024), np.int32), int32, is_state=True)
    assert is_streamed(p.buffer(state), [(state, p.negative(p.buffer(state)))]) == [False]


def test_the_smallest_output_stored_past_the_caches_is_work_for_many_threads() -> None:
    (launch,) = CpuDevice(threads=1).compile([p.negative(leaf((LARGE, 1024)))]).launches
    assert launch.tasks >= 2 * ENOUGH_TASKS


@pytest.mark.parametrize("apart", [False, True], ids=["in a row", "transposed"])
def test_storing_past_the_caches_leaves_the_values_alone(apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = leaf((3, 50, 32))
    node = p.tanh(p.cast(p.permute(x, (0, 2, 1)) if apart else x, float32))
    results = []
    for limit in (STREAMED_BYTES, 1):
        monkeypatch.setattr(loops, "STREAMED_BYTES", limit)
        for threads in (1, 2, 3):
            (result,) = CpuDevice(threads=threads).evaluate([node])
            results.append(result.view().tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("size", [50, STREAMED_BYTES // 4])
def test_loops_that_differ_in_numbers_alone_have_one_kernel(dtype: DType, size: int) -> None:
    def scaled(number: float) -> Node:
        x = p.cast(leaf((size,)), dtype)
        return p.subtract(p.divide(x, p.full((size,), number, dtype)), p.full((size,), -number / 3, dtype))

    device = CpuDevice(threads=1)
    first, second = scaled(100352.0), scaled(0.1)
    (one,), (other,) = device.compile([first]).launches, device.compile([second]).launches
    assert one.source == other.source and one.words != other.words
    for node in (first, second):
        expected = ReferenceDevice().evaluate([node])[0].view()
        np.testing.assert_array_equal(device.compile([node]).run([])[0].view(), expected)


@pytest.mark.parametrize(
    "made",
    [
        lambda x, number: p.power(x, number),  # what is computed depends on the number
        lambda x, number: p.multiply(p.multiply(x, number), p.full(x.shape, 1.0, float32)),
        lambda x, number: p.where(p.less(x, number), number, x),
    ],
)
def test_numbers_of_any_operation_have_the_values_of_the_reference(made: Callable[[Node, Node], Node]) -> None:
    x = p.cast(leaf((3, 50)), float32)
    node = made(x, p.full((3, 50), 2.5, float32))
    found = CpuDevice(threads=1).compile([node]).run([])[0].view()
    np.testing.assert_array_equal(found, ReferenceDevice().evaluate([node])[0].view())


@pytest.mark.parametrize("divisor", [64.0, -0.125, 2.0**126, 2.0**127, 2.0**-126, 3.0])
def test_dividing_by_a_power_of_two_keeps_its_bits(divisor: float) -> None:
    values = np.array([0.0, -0.0, 1e-38, 1.1754944e-38, 3e38, -7.5, np.inf, np.nan, 1e-45], np.float32)
    node = p.divide(p.buffer(Storage.of(values, float32)), p.full((9,), divisor, float32))
    for flush in (False, True):
        found = CpuDevice(threads=1).compile([node], flush=flush).run([])[0].view()
        expected = ReferenceDevice(flush_subnormals=flush).evaluate([node])[0].view()
        np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_numbers_are_operands_of_tiles_and_broadcast_rows() -> None:
    x = p.cast(p.permute(leaf((40, 50)), (1, 0)), float32)
    node = p.add(p.multiply(x, p.full((50, 40), 0.3, float32)), p.full((50, 40), 7.25, float32))
    found = CpuDevice(threads=1).compile([node]).run([])[0].view()
    np.testing.assert_array_equal(found, ReferenceDevice().evaluate([node])[0].view())


LOOPS = ("loop", "rows", "group", "reduction")


def test_a_step_for_a_second_batch_size_has_the_loops_of_the_first() -> None:
    network = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3))
    rate = engine.asarray(0.1)

    @engine.trace
    def step(x: Tensor) -> None:
        parameters = list(network.parameters())
        for parameter, gradient in zip(
            parameters, engine.gradients(engine.mean(network(x) ** 2), parameters), strict=True
        ):
            parameter.assign(parameter - rate * gradient)

    texts = []
    with engine.device(CpuDevice(threads=1)):
        for images in (8, 24):
            step(np.zeros((images, 3, 12, 12), np.float32))
            launches = [each for each in step.programs[-1].launches if each.work.kind in LOOPS]
            launches = [each for each in launches if each.label != "combine"]  # of a weight gradient's blocks
            sources = {launch.source for launch in launches}
            texts.append({rendered(source)[1] for source in sources})
    assert len(texts[0]) > 5 and texts[1] <= texts[0]


@pytest.mark.parametrize("shape", [(2, 4096, 24), (3136, 20), (1, 1000, 17), (2, 3, 700, 33)])
def test_transposed_rows_that_are_long_are_cut_into_strips(on_cpu: CpuDevice, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    found = engine.trace(lambda x: engine.permute_dims(x, order) * 2)(x)
    np.testing.assert_array_equal(found.numpy(), np.transpose(x, order) * 2)


def test_a_strip_has_all_rows_and_a_task_whole_strips() -> None:
    source, target = (Buffer(24 * 4096, float32, "") for _ in range(2))
    work = copied(View(source, float32, (24, 4096), (1, 24)), View(target, float32, (24, 4096), (4096, 1)), "")
    cut = in_strips(work)
    assert (work.extents, cut.extents, cut.points) == ((24, 4096), (8, 24, 512), work.points)
    assert [view.strides for view in (*cut.reads, *cut.writes)] == [(24 * 512, 1, 24), (512, 4096, 1)]
    rows = copied(View(source, float32, (24, 4096), (4096, 1)), View(target, float32, (24, 4096), (4096, 1)), "")
    assert in_strips(rows) is rows
