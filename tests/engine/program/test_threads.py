"""Python threads that build, run and read at the same time see whole values, and each its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from trainer import engine
from trainer.engine import State
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p

UPDATES = 60


def together(*jobs: Callable[[], None]) -> None:
    """Run `jobs` on a thread each; the first error is raised here."""
    begin = threading.Barrier(len(jobs))

    def run(job: Callable[[], None]) -> None:
        begin.wait()
        job()

    with ThreadPoolExecutor(len(jobs)) as threads:
        for future in [threads.submit(run, job) for job in jobs]:
            future.result()


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_state_is_read_before_or_after_an_update(device: str) -> None:
    state = State(np.zeros(50_000))

    def step() -> None:
        state.assign(state + 1)

    def update() -> None:
        with engine.device(device):
            traced = engine.trace(step)
            for _ in range(UPDATES):
                traced()

    def read() -> None:
        with engine.device(device):
            for _ in range(UPDATES):
                twice = state * 2
                values = state.numpy()
                assert values.min() == values.max()
                assert engine.min(twice).item() == engine.max(twice).item() and twice[0].item() % 2 == 0

    together(update, read, read)
    assert state.numpy().min() == state.numpy().max() == UPDATES


def test_threads_that_build_the_same_graph_get_nodes_of_their_own() -> None:
    x = engine.asarray([1.0, 2.0])
    made: list[list[int]] = []

    def build() -> None:
        nodes = [p.add(x.node, p.full((2,), 3.0, dtypes.float32)) for _ in range(500)]
        assert all(node.sequence > x.node.sequence for node in nodes)
        made.append([node.sequence for node in nodes])

    together(build, build, build)
    assert all(numbers == sorted(numbers) for numbers in made)
    assert len({number for numbers in made for number in numbers}) == 1500


def test_one_state_has_one_node_for_all_threads() -> None:
    states = [State([1.0]) for _ in range(200)]
    found: list[list[object]] = []

    def read() -> None:
        found.append([state.node for state in states])

    together(read, read, read)
    assert all(first is second is third for first, second, third in zip(*found, strict=True))
