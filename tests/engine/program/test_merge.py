"""Equal independent loops become one item, and nothing else changes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.program.works import buffer, conflict, programs, work
from trainer import engine
from trainer.engine import nn
from trainer.engine.program.merge import merged
from trainer.engine.program.target import Features
from trainer.engine.program.work import KernelSource, Work
from trainer.engine.targets.cpu import target
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.lowering.launch import Launch
from trainer.learner.optimizers.adam import Adam

CODES = [KernelSource(name, str) for name in ("first kernel", "second kernel")]


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(programs(), st.lists(st.sampled_from(CODES), min_size=20, max_size=20))
def test_every_item_runs_once_and_conflicting_ones_in_order_and_apart(
    works: list[Work], codes: list[KernelSource]
) -> None:
    for each, code in zip(works, codes, strict=False):
        each.code = code
    place = {}
    for index, each in enumerate(merged(works, Features())):
        for part in each.parts or (each,):
            assert id(part) not in place
            place[id(part)] = index
    assert place.keys() == {id(each) for each in works}
    for later, second in enumerate(works):
        for first in works[:later]:
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
    assert len(updates) <= 2 and sum(len(each.work.parts) for each in updates) == 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "merged", lambda works, features: works)
        apart, expected = adam_steps()
    assert len(apart) >= len(launches) + 8
    for value, other in zip(states, expected, strict=True):
        np.testing.assert_array_equal(value, other)


def test_loops_that_would_keep_much_memory_alive_do_not_wait() -> None:
    works = [work([], [buffer(1000)], code=CODES[0]) for _ in range(4)]
    assert [len(each.parts) for each in merged(works, Features(held_bytes=2000))] == [2, 2]
    assert all(not each.parts for each in merged(works, Features(held_bytes=999)))
