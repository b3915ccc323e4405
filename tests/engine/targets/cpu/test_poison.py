"""Poison: memory of a buffer is NaN as soon as its last reader has ended, so that a wrong plan shows in the values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.program.graphs import leaf
from tests.engine.program.works import work
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.storage import Storage
from trainer.engine.program.plan import MemoryPlan, plan_memory
from trainer.engine.program.work import Buffer, KernelSource, Work
from trainer.engine.targets.cpu import executable as program_module
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.lowering.launch import Launch
from trainer.engine.targets.cpu.poison import poisoned


def launch(reads: list[Buffer], writes: list[Buffer], label: str) -> Launch:
    return Launch(work(reads, writes, label), KernelSource(label, str), [], 2)


def test_every_buffer_of_the_arena_is_filled_after_its_last_use_and_only_then() -> None:
    a, b, result = (Buffer(10, float32, name) for name in "abc")
    result.result, leaf_buffer = 0, Buffer(10, float32, "leaf", Storage((10,), float32))
    touched = {"1": ([leaf_buffer], [a]), "2": ([a], [b]), "3": ([a], [result]), "4": ([b], [])}
    launches = [launch(reads, writes, label) for label, (reads, writes) in touched.items()]
    filled = poisoned(launches)
    assert [(each.label, each.writes) for each in filled if each.label == "poison"] == [
        ("poison", (a,)),
        ("poison", (b,)),
    ]
    assert [each.label for each in filled] == ["1", "2", "3", "poison", "4", "poison"]


def graph() -> tuple[p.buffer, p.buffer]:
    x = leaf((300, 300))
    a = p.cumulative_sum(x, 0)
    b = p.cumulative_sum(p.negative(x), 1)
    return x, p.cumulative_sum(p.add(p.cumulative_sum(p.multiply(a, b), 0), a), 1)


def test_results_are_the_same_with_and_without() -> None:
    x, y = graph()
    values = [
        CpuDevice(threads=1, poison=poison).compile([y], inputs=[x]).run([x.attributes[0]])[0].view()
        for poison in (True, False)
    ]
    np.testing.assert_array_equal(*values)


def test_a_plan_that_ends_a_buffer_too_early_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = graph()
    expected = CpuDevice(threads=1).compile([y], inputs=[x]).run([x.attributes[0]])[0].view()

    def everything_at_one_place(works: list[Work]) -> MemoryPlan:
        plan = plan_memory(works)
        return MemoryPlan(dict.fromkeys(plan.offsets, 0), plan.size, plan.peak)

    monkeypatch.setattr(program_module, "plan_memory", everything_at_one_place)
    (found,) = CpuDevice(threads=1, poison=True).compile([y], inputs=[x]).run([x.attributes[0]])
    assert (found.view() != expected).any()


def test_the_environment_turns_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINER_POISON", "1")
    assert CpuDevice(threads=1).poison and not CpuDevice(threads=1, poison=False).poison
    monkeypatch.delenv("TRAINER_POISON")
    assert not CpuDevice(threads=1).poison
