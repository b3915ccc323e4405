"""The order of items: conflicts keep theirs, and what frees memory does not wait."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tests.engine.program.works import buffer, conflict, is_single, programs, work
from trainer import engine
from trainer.engine import nn
from trainer.engine.graph.dtypes import float32, uint8
from trainer.engine.graph.storage import Storage
from trainer.engine.program.plan import plan_memory
from trainer.engine.program.schedule import schedule
from trainer.engine.program.target import Features
from trainer.engine.program.work import Buffer, Work
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner import SGD

LARGE = 8 << 20


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(programs())
def test_conflicting_items_keep_their_order(works: list[Work]) -> None:
    after = schedule(works, Features(cached_bytes=0, freed_bytes=1), is_single)
    assert sorted(map(id, after)) == sorted(map(id, works))
    place = {id(each): index for index, each in enumerate(after)}
    for later, second in enumerate(works):
        for first in works[:later]:
            assert not conflict(first, second) or place[id(first)] < place[id(second)]


def two_layers() -> tuple[list[Work], Work]:
    """Two layers' gradients, then both updates, which read a rate that is only made before them."""
    states = [Storage((LARGE,), uint8) for _ in range(2)]
    gradients, rate = [buffer(LARGE) for _ in range(2)], buffer(4)
    works = [work([], [gradient]) for gradient in gradients] + [work([], [rate], points=1)]
    for state, gradient in zip(states, gradients, strict=True):
        old, new = (buffer(LARGE, storage=state) for _ in range(2))
        works.append(work([old, gradient, rate], [new]))
    return works, works[3]


def test_an_update_follows_its_gradient_and_takes_along_what_it_waits_for() -> None:
    works, update = two_layers()
    after = schedule(works, Features(), is_single)
    assert after.index(update) == 2 and after.index(works[2]) < 2
    assert plan_memory(after).size < LARGE + 4096 < plan_memory(works).size


def test_a_small_program_keeps_its_order() -> None:
    works = [work([], [buffer(1 << 20)]) for _ in range(3)]
    assert schedule(works, Features(), is_single) == works


def exchange(size: int) -> tuple[list[Work], Buffer, Buffer]:
    source, target = buffer(size), buffer(size)
    middle = work([source], [target], in_place=[(target, source)])
    return [work([], [source]), middle, work([target], [buffer(1, result=0)])], source, target


def test_an_output_takes_the_place_of_an_input_that_ends() -> None:
    works, source, target = exchange(5000)
    plan = plan_memory(works)
    assert plan.offsets[source] == plan.offsets[target] and plan.size == 5120


def test_an_input_that_lives_on_keeps_its_place() -> None:
    works, source, target = exchange(5000)
    works.append(work([source], [buffer(1, result=1)]))
    plan = plan_memory(works)
    assert plan.offsets[source] != plan.offsets[target] and plan.size == 2 * 5120


def test_two_outputs_never_take_the_same_place() -> None:
    source, first, second = (buffer(5000) for _ in range(3))
    both = work([source], [first, second], in_place=[(first, source), (second, source)])
    plan = plan_memory([work([], [source]), both, work([first, second], [buffer(1, result=0)])])
    assert plan.offsets[first] != plan.offsets[second] and plan.size == 2 * 5120


def test_a_loop_runs_in_place_unless_it_reads_other_elements_than_it_writes() -> None:
    """Adding the sum in place is right; with the transposed array it would read what was just overwritten."""
    x = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)

    def straight(a: engine.Tensor) -> engine.Tensor:
        b = engine.exp(a)
        c = b + engine.sum(b) * 1e-5
        return engine.matmul(c[:32], c)  # so few rows that no machine packs c

    def crossed(a: engine.Tensor) -> engine.Tensor:
        b = engine.exp(a)
        c = b + engine.permute_dims(b, (1, 0)) + engine.sum(b) * 1e-5
        return engine.matmul(c[:32], c)  # so few rows that no machine packs c

    with engine.device(CpuDevice(threads=2, poison=False)):
        plain, twisted = engine.trace(straight), engine.trace(crossed)
        made, other = plain(x).numpy(), twisted(x).numpy()
    b = np.exp(x.astype(np.float64))
    c, d = b + b.sum() * 1e-5, b + b.T + b.sum() * 1e-5
    np.testing.assert_allclose(made, c[:32] @ c, rtol=1e-5)
    np.testing.assert_allclose(other, d[:32] @ d, rtol=1e-5)
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
