"""Launches of several equal loops: how their work is divided among threads."""

from __future__ import annotations

import pytest

from trainer.engine.graph.dtypes import float32
from trainer.engine.program.loops import fill
from trainer.engine.program.merge import merged
from trainer.engine.program.target import Features
from trainer.engine.program.work import Buffer
from trainer.engine.targets.cpu import defaults
from trainer.engine.targets.cpu.lowering.loops import TASK_ELEMENTS, with_code
from trainer.engine.targets.cpu.lowering.lower import lower


@pytest.mark.parametrize(("count", "elements", "tasks"), [(50, 64, 1), (3, 10 * TASK_ELEMENTS, 30)])
def test_many_tiny_loops_stay_on_the_calling_thread_and_large_ones_share_out_their_work(
    count: int, elements: int, tasks: int
) -> None:
    loops = [with_code(fill(Buffer(elements, float32, "buffer"), 0.0)) for _ in range(count)]
    (group,) = merged(loops, Features())
    assert len(group.parts) == count
    assert lower(group, defaults.choose).tasks == tasks
