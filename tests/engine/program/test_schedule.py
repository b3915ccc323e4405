"""The order of launches: conflicts keep theirs, and what frees memory does not wait."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.engine.program.test_plan import buffer, launch, programs
from trainer import engine
from trainer.engine import nn
from trainer.engine.graph.dtypes import float32, uint8
from trainer.engine.graph.storage import Storage
from trainer.engine.program import schedule as scheduling
from trainer.engine.program.launch import Buffer, Launch, place_of
from trainer.engine.program.plan import plan_memory
from trainer.engine.program.schedule import schedule
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner.optimizers import SGD

LARGE = 8 << 20


def conflict(first: Launch, second: Launch) -> bool:
    writes, touched = {place_of(b) for b in first.writes}, {place_of(b) for b in (*first.reads, *first.writes)}
    others, all_others = {place_of(b) for b in second.writes}, {place_of(b) for b in (*second.reads, *second.writes)}
    return bool(writes & all_others or touched & others)


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(programs())
def test_conflicting_launches_keep_their_order(launches: list[Launch]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduling, "CACHED_BYTES", 0)
        patch.setattr(scheduling, "WORTH_MOVING", 1)
        after = schedule(launches)
    assert sorted(map(id, after)) == sorted(map(id, launches))
    place = {id(each): index for index, each in enumerate(after)}
    for later, second in enumerate(launches):
        for first in launches[:later]:
            assert not conflict(first, second) or place[id(first)] < place[id(second)]


def two_layers() -> tuple[list[Launch], Launch]:
    """Two layers' gradients, then both updates, which read a rate that is only made before them."""
    states = [Storage((LARGE,), uint8) for _ in range(2)]
    gradients, rate = [buffer(LARGE) for _ in range(2)], buffer(4)
    launches = [launch([], [gradient]) for gradient in gradients] + [launch([], [rate], tasks=1)]
    for state, gradient in zip(states, gradients, strict=True):
        old, new = (buffer(LARGE, storage=state) for _ in range(2))
        launches.append(launch([old, gradient, rate], [new]))
    return launches, launches[3]


def test_an_update_follows_its_gradient_and_takes_along_what_it_waits_for() -> None:
    launches, update = two_layers()
    after = schedule(launches)
    assert after.index(update) == 2 and after.index(launches[2]) < 2
    assert plan_memory(after).size < LARGE + 4096 < plan_memory(launches).size


def test_a_small_program_keeps_its_order() -> None:
    launches = [launch([], [buffer(1 << 20)]) for _ in range(3)]
    assert schedule(launches) == launches


def exchange(size: int) -> tuple[list[Launch], Buffer, Buffer]:
    source, target = buffer(size), buffer(size)
    middle = launch([source], [target])
    middle.in_place = ((target, source),)
    return [launch([], [source]), middle, launch([target], [buffer(1, result=0)])], source, target


def test_an_output_takes_the_place_of_an_input_that_ends() -> None:
    launches, source, target = exchange(5000)
    plan = plan_memory(launches)
    assert plan.offsets[source] == plan.offsets[target] and plan.size == 5120


def test_an_input_that_lives_on_keeps_its_place() -> None:
    launches, source, target = exchange(5000)
    launches.append(launch([source], [buffer(1, result=1)]))
    plan = plan_memory(launches)
    assert plan.offsets[source] != plan.offsets[target] and plan.size == 2 * 5120


def test_two_outputs_never_take_the_same_place() -> None:
    source, first, second = (buffer(5000) for _ in range(3))
    both = launch([source], [first, second])
    both.in_place = ((first, source), (second, source))
    plan = plan_memory([launch([], [source]), both, launch([first, second], [buffer(1, result=0)])])
    assert plan.offsets[first] != plan.offsets[second] and plan.size == 2 * 5120


def test_a_loop_runs_in_place_unless_it_reads_other_elements_than_it_writes() -> None:
    """Adding the sum in place is right; with the transposed array it would read what was just overwritten."""
    x = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)

    def straight(a: engine.Tensor) -> engine.Tensor:
        b = engine.exp(a)
        c = b + engine.sum(b) * 1e-5
        return engine.matmul(c, c)

    def crossed(a: engine.Tensor) -> engine.Tensor:
        b = engine.exp(a)
        c = b + engine.permute_dims(b, (1, 0)) + engine.sum(b) * 1e-5
        return engine.matmul(c, c)

    with engine.device(CpuDevice(threads=2, poison=False)):
        plain, twisted = engine.trace(straight), engine.trace(crossed)
        made, other = plain(x).numpy(), twisted(x).numpy()
    b = np.exp(x.astype(np.float64))
    c, d = b + b.sum() * 1e-5, b + b.T + b.sum() * 1e-5
    np.testing.assert_allclose(made, c @ c, rtol=1e-5)
    np.testing.assert_allclose(other, d @ d, rtol=1e-5)
    assert plain.programs[0].memory.size < 2 * x.nbytes <= twisted.programs[0].memory.size


def test_gradients_do_not_wait_for_the_last_layer() -> None:
    """Ten layers of 4 MB: their gradients never live together."""
    layers = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(10)))
    optimizer = SGD(layers, 0.01)

    def step(x: engine.Tensor) -> engine.Tensor:
        loss = engine.sum(layers(x))
        optimizer.minimize(loss)
        return loss

    traced = engine.trace(step)
    with engine.device(CpuDevice(threads=2, poison=False)):
        traced(np.ones((4, 1024), np.float32)).item()
        assert traced.programs[0].memory.size < 4 * 1024 * 1024 * float32.itemsize
