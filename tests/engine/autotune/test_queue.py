"""The queue: costly kernels first, and no candidates beyond what they promise."""

from __future__ import annotations

from typing import Any

import pytest

from trainer.engine.autotune.helper import Job
from trainer.engine.autotune.process import Answer
from trainer.engine.autotune.queue import Decision, Queue
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.lowering.launch import Tunable
from trainer.engine.targets.cpu.template import Template, TemplateKernel


class EightTasks(TemplateKernel[str, float]):
    """A kernel that is never rendered."""

    def __init__(self, spec: str, parameters: float) -> None:
        self.spec, self.parameters = spec, parameters

    @property
    def grid(self) -> tuple[int, ...]:
        return (8,)


TEMPLATE = Template(object, object, EightTasks, lambda _: [], lambda *_: [])


class Scripted:
    """A helper that answers at once: each candidate is the time it takes, the default takes 1."""

    def __init__(self) -> None:
        self.tried: list[tuple[str, float]] = []
        self._job: Job | None = None

    def ask(self, job: Job) -> None:
        self._job = job
        self.tried.append((job.default.spec, job.candidate))

    def poll(self, seconds: float = 0.0) -> Answer | None:
        assert self._job is not None
        return Answer("", self._job.candidate, 1.0, 0.1)


def decision(name: str, times: list[float], cost: float) -> Decision:
    return Decision(name, Tunable(TEMPLATE, name, 1.0), list(times), cost)


def played(helper: Any, patience: int | None, *decisions: Decision) -> list[Decision]:
    queue = Queue([helper], native.host_target(), 2, 1.0, patience)
    for each in decisions:
        queue.add(each)
    ready: list[Decision] = []
    ready += queue.poll(lambda: True)
    while queue.is_trying:
        ready += queue.poll(lambda: True)
    return ready


def test_the_costliest_kernel_comes_first() -> None:
    helper = Scripted()
    ready = played(helper, None, decision("small", [0.9], 0.1), decision("large", [0.9, 0.8], 0.5))
    assert [name for name, _ in helper.tried] == ["large", "large", "small"]
    assert [each.label for each in ready] == ["large", "small"]


def test_candidates_after_many_that_bring_nothing_are_left_out() -> None:
    helper = Scripted()
    (found,) = played(helper, 2, decision("kernel", [1.0, 1.1, 0.5, 0.6], 0.5))
    assert [time for _, time in helper.tried] == [1.0, 1.1]
    assert found.skipped["unpromising"] == 2 and found.tried == 3


def test_one_that_gains_is_a_reason_to_go_on() -> None:
    helper = Scripted()
    (found,) = played(helper, 2, decision("kernel", [1.0, 0.9, 1.0, 0.7, 1.0, 1.0, 0.1], 0.5))
    assert [time for _, time in helper.tried] == [1.0, 0.9, 1.0, 0.7, 1.0, 1.0]
    assert [parameters for parameters, _ in found.finalists()] == [0.7, 0.9, 1.0]


@pytest.mark.parametrize("patience", [None, 2])
def test_every_decision_is_ready_once(patience: int | None) -> None:
    each = [decision(str(number), [1.0] * number, 0.1 * number) for number in range(1, 6)]
    assert sorted(found.label for found in played(Scripted(), patience, *each)) == ["1", "2", "3", "4", "5"]
