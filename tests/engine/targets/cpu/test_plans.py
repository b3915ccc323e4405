"""Lowered programs that are kept on disk: equal to fresh ones, told apart, and ignored where they are damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.golden.listing import Listing, listing_of
from tests.engine.golden.lowering import Graph as Compiled
from tests.engine.golden.lowering import Lowered, graph_of
from tests.engine.golden.programs import PROGRAMS
from tests.engine.golden.test_golden import CHEAP
from trainer import engine
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import CHANNELS_LAST, Storage
from trainer.engine.program.partition import Policy
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import choices, identity, plans
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.executable import Program
from trainer.engine.targets.cpu.machine import host_machine
from trainer.engine.targets.cpu.target import CpuTarget

PROCESS = """
import numpy as np
from trainer import engine
from trainer.engine import nn
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.target import CpuTarget

lowered = []
lower = CpuTarget.lower
CpuTarget.lower = lambda self, *arguments: (lowered.append(len(arguments[0].updates)), lower(self, *arguments))[1]
engine.set_default_device(CpuDevice(poison=False))
net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 5)).set_seed(0)
rate = engine.State(np.float32(0.1))

@engine.trace
def step(x):
    parameters = net.parameters()
    loss = engine.mean(net(x) ** 2)
    for parameter, gradient in zip(parameters, engine.gradients(loss, parameters)):
        parameter.assign(parameter - rate * gradient)
    return loss

x = np.random.default_rng(0).standard_normal((4, 3, 8, 8)).astype(np.float32)
losses = [step(x).item().hex() for _ in range(3)]
weights = np.concatenate([np.ravel(np.asarray(each)) for each in net.state_dict().values()])
print(sum(count > 0 for count in lowered), losses, weights.tobytes().hex())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))
    yield tmp_path / "objects"
    disk_cache.private_directory.cache_clear()


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows by one with each graph that passes lower."""
    found, lower = list[object](), CpuTarget.lower

    def counting(self: CpuTarget, *arguments: Any) -> Any:
        found.append(self)
        return lower(self, *arguments)

    monkeypatch.setattr(CpuTarget, "lower", counting)
    return found


def leaf(shape: tuple[int, ...] = (4, 6), dtype: dtypes.DType = dtypes.float32, **named: Any) -> Node:
    return p.buffer(Storage.of(np.zeros(shape, dtype.storage), dtype, **named))


def device(**named: Any) -> CpuDevice:
    return CpuDevice(threads=1, poison=False, **named)


def compiled(on: CpuDevice, x: Node) -> Program:
    """A traced program of one input."""
    return on.compile([p.tanh(p.add(x, x))], inputs=[x], flush=True)


def digest(
    results: Sequence[Node], updates: Sequence[tuple[Storage, Node]] = (), inputs: Sequence[Node] = (),
    *circumstances: object,
) -> str:  # fmt: skip
    graph = plans.Graph.of(results, updates, inputs, *circumstances)
    assert graph is not None
    return graph.digest


def listed(graph: Compiled, program: Program) -> Listing:
    results = [result.buffer for result in program._results]
    waits, offsets = [bool(each) for each in program.waits], program.memory.offsets
    return listing_of(graph, Lowered(program.launches, waits, offsets, program.memory.size, results, program.layouts))


@pytest.mark.parametrize("name", CHEAP)
def test_a_kept_program_has_the_launches_kernels_and_places_of_a_fresh_one(
    name: str, folder: Path, lowered: list[object]
) -> None:
    program, listings = PROGRAMS[name], []
    for _ in range(2):
        graph = graph_of(program)
        inputs = [p.buffer(storage) for storage in graph.inputs]
        on = device(numerics=program.numerics)
        listings.append(listed(graph, on.compile(graph.results, graph.updates, inputs, flush=True)))
    assert len(lowered) == 1
    assert listings[0] == listings[1]


def test_a_second_process_lowers_nothing_and_computes_the_same_bits(tmp_path: Path) -> None:
    def run(seed: str) -> list[str]:
        environment = {**os.environ, "TRAINER_CACHE_DIR": str(tmp_path), "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROCESS]
        return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.split(
            " ", 1
        )

    first, second = run("1"), run("2")
    assert (first[0], second[0]) == ("1", "0")
    assert first[1] == second[1]


def test_graphs_that_differ_in_anything_have_digests_of_their_own() -> None:
    x, y, state = leaf(), leaf(name="y"), leaf(is_state=True)
    storage = state.attributes[0]
    odd = Storage.of(np.zeros((4, 6), np.float32), dtypes.float32)
    odd.is_aligned = False
    relaid = leaf((2, 3, 4, 5))
    relaid.attributes[0].lay_out(CHANNELS_LAST)
    settled = leaf(is_state=True)
    settled.attributes[0].settled = True

    def scaled(number: float) -> list[Node]:
        return [p.multiply(x, p.full((4, 6), number, dtypes.float32))]

    graphs: list[tuple[Any, ...]] = [
        ([p.add(x, x)],),
        ([p.add(x, y)],),
        ([p.add(y, x)],),
        ([p.add(leaf((6, 4)), leaf((6, 4)))],),
        ([p.add(leaf(dtype=dtypes.float64), leaf(dtype=dtypes.float64))],),
        ([p.subtract(x, y)],),
        ([p.subtract(y, x)],),
        (scaled(2.0),),
        (scaled(2.5),),
        (scaled(0.0),),
        (scaled(-0.0),),
        (scaled(float("nan")),),
        ([p.reduce_sum(x, (0,))],),
        ([p.reduce_sum(x, (1,))],),
        ([p.permute(relaid, (0, 1, 3, 2))],),
        ([p.permute(leaf((2, 3, 4, 5)), (0, 1, 3, 2))],),
        ([p.negative(p.buffer(odd))],),
        ([p.negative(leaf())],),
        ([p.negative(state)],),
        ([p.negative(settled)],),
        ([p.negative(leaf(name="another"))],),
        ([p.negative(x)], (), [x]),
        ([p.negative(x)], (), [y]),
        ([p.negative(x)], (), [x, y]),
        ([p.negative(x), p.negative(x)],),
        ([], [(storage, p.negative(state))]),
        ([], [(storage, p.negative(settled))]),
        ([], [(settled.attributes[0], p.negative(state))]),
    ]
    target = CpuTarget(host_machine())
    circumstances: list[tuple[object, ...]] = [
        (target, Policy(), True),
        (replace(target, numerics="fast"), Policy(), True),
        (replace(target, bfloat16="tiles"), Policy(), True),
        (replace(target, per_item=True), Policy(), True),
        (replace(target, machine=replace(target.machine, threads=64)), Policy(), True),
        (replace(target, machine=replace(target.machine, vectors=24 - target.machine.vectors)), Policy(), True),
        (target, replace(Policy(), prologues=False), True),
        (target, Policy(), False),
        (target, Policy(), True, "other features"),
    ]
    digests = [digest(*graph) for graph in graphs]
    digests += [digest([p.negative(x)], (), [x], *each) for each in circumstances]
    assert len(set(digests)) == len(graphs) + len(circumstances)


def test_equal_graphs_of_other_memories_have_one_digest() -> None:
    first, second = ([p.tanh(p.add(x, x))] for x in (leaf(), leaf()))
    assert digest(first) == digest(second)


def test_a_change_of_the_engines_source_ends_all_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest([p.negative(leaf())])
    monkeypatch.setattr(identity, "source_hash", lambda: "another")
    assert digest([p.negative(leaf())]) != before


def cut(content: bytes) -> bytes:
    return content[:-1]


def flipped(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def emptied(content: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [cut, flipped, emptied])
def test_a_damaged_plan_is_made_again(damage: Callable[[bytes], bytes], folder: Path, lowered: list[object]) -> None:
    compiled(device(), leaf())
    (file,) = folder.glob(f"*{plans.PLAN}")
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    compiled(device(), leaf())
    assert len(lowered) == 2
    assert file.read_bytes() == whole
    compiled(device(), leaf())
    assert len(lowered) == 2


def test_a_plan_under_the_name_of_another_is_not_read(folder: Path, lowered: list[object]) -> None:
    x = leaf()
    compiled(device(), x)
    (file,) = folder.glob(f"*{plans.PLAN}")
    device().compile([p.exp(x)], inputs=[x], flush=True)
    (other,) = set(folder.glob(f"*{plans.PLAN}")) - {file}
    other.write_bytes(file.read_bytes())
    program = device().compile([p.exp(x)], inputs=[x], flush=True)
    assert len(lowered) == 3
    np.testing.assert_array_equal(program.run([x.attributes[0]])[0].view(), np.ones((4, 6), np.float32))


def test_a_plan_whose_parameters_are_chosen_otherwise_is_made_again(folder: Path, lowered: list[object]) -> None:
    a, b = leaf((64, 64)), leaf((64, 64))

    def product(choose: Callable[[Any], Any] | None) -> Any:
        program = device(choose=choose).compile([p.matmul(a, b)], inputs=[a, b], flush=True)
        return next(launch.tunable.parameters for launch in program.launches if launch.tunable)

    def second(spec: Any) -> Any:
        return choices.candidates(spec)[1]

    best = product(choices.choose)
    assert product(choices.choose) == best and len(lowered) == 1
    other = product(second)
    assert other != best and len(lowered) == 2
    assert product(second) == other and len(lowered) == 2
    assert product(None) == best


def test_what_calls_python_has_no_plan(folder: Path) -> None:
    @engine.trace
    def step(x: Any) -> engine.Tensor:
        return engine.host_call(np.sqrt, x, results=[((3,), engine.float32)]) + 1

    with engine.device(device()):
        step(np.ones(3, np.float32))
    assert not list(folder.glob(f"*{plans.PLAN}"))
