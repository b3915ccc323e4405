"""Equal independent loops become one launch, and nothing else changes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.program.test_plan import buffer, launch, programs
from tests.engine.program.test_schedule import conflict
from trainer import engine
from trainer.engine import nn
from trainer.engine.graph.dtypes import float32
from trainer.engine.program import lower
from trainer.engine.program.launch import KernelSource, Launch
from trainer.engine.program.merge import HELD_BYTES, merged
from trainer.engine.program.spec import Instruction, LoopKernel, Operand, pack_arguments
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner.optimizers import Adam

KERNELS = [
    LoopKernel(1, (), (Instruction("constant", (), float32, (value,)),), ((0, Operand(float32, "contiguous")),))
    for value in (0.0, 1.0)
]


def as_loops(launches: list[Launch], kinds: list[int]) -> list[Launch]:
    for each, kind in zip(launches, kinds, strict=False):
        each.source = KernelSource(KERNELS[kind], str)
        each.words = list(pack_arguments(KERNELS[kind], [0], [each.tasks * 16384], [[1]], 16384))
    return launches


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(programs(), st.lists(st.integers(0, 1), min_size=20, max_size=20))
def test_every_launch_runs_once_and_conflicting_ones_in_order_and_apart(
    launches: list[Launch], kinds: list[int]
) -> None:
    place = {}
    for index, each in enumerate(merged(as_loops(launches, kinds))):
        for part in each.parts or (each,):
            assert id(part) not in place
            place[id(part)] = index
    assert place.keys() == {id(each) for each in launches}
    for later, second in enumerate(launches):
        for first in launches[:later]:
            assert not conflict(first, second) or place[id(first)] < place[id(second)]


def adam_steps() -> tuple[list[Launch], list[np.ndarray]]:
    """Three steps of Adam on five layers of different sizes; the launches, and all states afterwards."""
    sizes = (7, 300, 20, 33, 500, 3)
    network = nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(sizes))).set_seed(0)
    optimizer = Adam(network, 0.1)

    def step(x: engine.Tensor) -> engine.Tensor:
        loss = engine.mean(engine.square(network(x)))
        optimizer.minimize(loss)
        return loss

    traced = engine.trace(step)
    x = np.random.default_rng(0).standard_normal((16, 7)).astype(np.float32)
    with engine.device(CpuDevice(threads=2)):
        for _ in range(3):
            traced(x).item()
        states = [*network.parameters(), *optimizer.named_states().values()]
        return traced.programs[0].launches, [state.numpy().copy() for state in states]


def test_the_updates_of_all_weights_are_one_launch_and_so_are_those_of_all_biases() -> None:
    launches, states = adam_steps()
    updates = [each for each in launches if any("exp_avg" in written.label for written in each.writes)]
    assert len(updates) <= 2 and sum(len(each.parts) for each in updates) == 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lower, "merged", list)
        apart, expected = adam_steps()
    assert len(apart) >= len(launches) + 8
    for value, other in zip(states, expected, strict=True):
        np.testing.assert_array_equal(value, other)


def test_many_tiny_loops_stay_on_the_calling_thread_and_large_ones_share_out_their_work() -> None:
    def joined(tasks: int, count: int, elements: int) -> Launch:
        launches = as_loops([launch([], [], tasks) for _ in range(count)], [0] * count)
        for each in launches:
            each.words[1] = elements
        (found,) = merged(launches)
        return found

    tiny = joined(1, 50, 64)
    assert tiny.tasks == 1 and len(tiny.parts) == 50
    assert joined(10, 3, 10 * 16384).tasks == 30


def test_loops_that_would_keep_much_memory_alive_do_not_wait() -> None:
    launches = [launch([], [buffer(HELD_BYTES // 2 + 1)]) for _ in range(4)]
    assert all(not each.parts for each in merged(as_loops(launches, [0] * 4)))
