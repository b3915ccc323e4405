"""Whole programs: random graphs equal the reference, memory of results is nobody else's, the arena may move."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from tests.engine.program.graphs import Graph, graphs, leaf
from trainer.engine import State, evaluate
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.program.partition import Policy
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.reference import ReferenceDevice

_devices = [
    CpuDevice(threads=2, poison=True),
    CpuDevice(threads=1, policy=Policy(recompute=False)),
    CpuDevice(threads=1, policy=Policy(shared_loads=99, shared_operations=999)),
]


def outcome(graph: Graph, device: object, runs: int = 2) -> list[np.ndarray]:
    """Results and states after each of several runs, from the same beginning."""
    before = [storage.view().copy() for storage, _ in graph.updates]
    program = device.compile(graph.results, graph.updates, graph.inputs)  # type: ignore[attr-defined]
    values = []
    for _ in range(runs):
        results = program.run([node.attributes[0] for node in graph.inputs])
        values += [storage.view().copy() for storage in (*results, *(storage for storage, _ in graph.updates))]
    for (storage, _), value in zip(graph.updates, before, strict=True):
        storage.view()[...] = value
    return values


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(graph=graphs())
def test_a_random_graph_equals_the_reference_under_every_policy(graph: Graph) -> None:
    expected = outcome(graph, ReferenceDevice())
    for device in _devices:
        for value, other in zip(outcome(graph, device), expected, strict=True):
            np.testing.assert_array_equal(value, other)


def test_memory_of_a_result_is_written_again_only_when_it_is_let_go(cpu: CpuDevice) -> None:
    x = leaf((5,))
    program = cpu.compile([p.negative(x)], inputs=[x])
    held = [program.run([x.attributes[0]])[0] for _ in range(20)]
    assert len({storage.flat().ctypes.data for storage in held}) == 20
    view = held[3].view()
    address = held[3].flat().ctypes.data
    del held
    later = {program.run([x.attributes[0]])[0].flat().ctypes.data for _ in range(20)}
    assert address not in later and len(later) < 20
    np.testing.assert_array_equal(view, -x.attributes[0].view())


@pytest.mark.parametrize(
    "view_of",
    [
        lambda memory: memory,
        lambda memory: memory[1:],
        lambda memory: memory.reshape(5, 1).T[0, ::2],
        lambda memory: memory.view(np.float32),
        lambda memory: np.asarray(memoryview(memory)[2:]),
        lambda memory: np.frombuffer(memory, np.uint8)[4:],
        lambda memory: np.lib.stride_tricks.as_strided(memory, (2,), (8,)),
    ],
)
def test_a_view_of_a_result_is_left_alone_by_later_runs(cpu: CpuDevice, view_of: Callable[..., np.ndarray]) -> None:
    x = leaf((5,))
    program = cpu.compile([p.negative(x)], inputs=[x])
    view = view_of(program.run([x.attributes[0]])[0].flat()[:5])
    before = view.copy()
    other = Storage.of(np.full(5, 3, np.int32), x.dtype)
    for _ in range(20):
        program.run([other])
    np.testing.assert_array_equal(view, before)


def test_a_program_survives_a_larger_one_that_moves_the_arena() -> None:
    device = CpuDevice(threads=1)
    x, wide = leaf((64, 64)), leaf((1024, 1024), seed=5)

    def sums(source: Node) -> Node:
        total = p.reduce_sum(source, (1,))
        spread = p.broadcast(p.reshape(total, (total.size, 1)), source.shape)
        return p.negative(p.cumulative_sum(p.multiply(source, spread), 0))

    small = device.compile([sums(x)], inputs=[x])
    (first,) = small.run([x.attributes[0]])
    address = device.arena.address
    large = device.compile([sums(wide)], inputs=[wide])
    large.run([wide.attributes[0]])
    assert device.arena.address != address
    (second,) = small.run([x.attributes[0]])
    np.testing.assert_array_equal(first.view(), second.view())


def test_old_handles_keep_their_value_when_a_program_updates_in_place(cpu: CpuDevice) -> None:
    from trainer import engine

    with engine.device(cpu):
        state = State(np.arange(3, dtype=np.int32), "count")
        memory = state.storage.flat()
        traced = engine.trace(lambda: state.assign(state * 2))
        old, alias = state + 0, state[:]
        evaluate(old)
        for _ in range(2):
            traced()
        assert state.tolist() == [0, 4, 8] and state.storage.flat() is memory
        assert old.tolist() == alias.tolist() == [0, 1, 2]


def test_an_update_that_reads_only_what_it_writes_needs_no_copy(cpu: CpuDevice) -> None:
    state = leaf((70000,), is_state=True)
    twice = cpu.compile([], [(state.attributes[0], p.add(state, state))])
    flipped = cpu.compile([], [(state.attributes[0], p.add(state, p.flip(state, (0,))))])
    labels = [[launch.label for launch in program.launches if launch.label != "poison"] for program in (twice, flipped)]
    assert labels == [["add"], ["add", "update"]]


def test_threads_of_python_take_turns() -> None:
    device = CpuDevice(threads=2)
    failures: list[int] = []

    def work(factor: int) -> None:
        x = leaf((200, 500), seed=factor)
        expected = (x.attributes[0].view() * factor).cumsum(1).sum(0)
        for _ in range(40):
            y = p.reduce_sum(p.cumulative_sum(p.multiply(x, p.full(x.shape, factor, x.dtype)), 1), (0,))
            if not np.array_equal(device.evaluate([y])[0].view(), expected):
                failures.append(factor)

    threads = [threading.Thread(target=work, args=(factor,), daemon=True) for factor in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == [] and not any(thread.is_alive() for thread in threads)
