"""How loops are split into tasks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.program.graphs import leaf
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import float32, int32
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.kernels.reduction_columns import STRIP_PARTS
from trainer.engine.targets.cpu.lowering import loops
from trainer.engine.targets.cpu.lowering.loops import ENOUGH_TASKS, STREAMED_BYTES, column_strip, kernel_of


@pytest.mark.parametrize(
    ("neighbours", "outer", "blocks", "expected"),
    [(16, 1, 32, 16), (4, 1, 49, 4), (5, 1, 49, 8), (8, 1, 13, 4), (8, 6, 13, 8), (1, 1, 49, 1), (32, 1, 1, 1)],
)
def test_a_task_takes_neighbouring_columns_while_enough_tasks_remain(
    neighbours: int, outer: int, blocks: int, expected: int
) -> None:
    parts = neighbours * outer
    strip = column_strip(neighbours, parts, blocks)
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
