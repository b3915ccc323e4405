"""The queue of pending decisions: sends their candidates to the helper processes and collects the results."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.engine.autotune.contest import Contest
from trainer.engine.autotune.helper import Job
from trainer.engine.autotune.process import Answer, Helper
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.executable import Program
from trainer.engine.targets.cpu.lowering.launch import Tunable

FINALISTS = 3
"""Maximum number of challengers measured in real steps: the fastest in the helper."""

PROMISING = 0.98
"""A candidate that takes less than this share of the minimum time so far resets the patience."""

SLOWER = 1.15
"""A candidate this much slower than the default in the helper is not timed in steps."""


@dataclass(eq=False)
class Decision:
    """One kernel to decide: its candidates, their results, and the contest of the remaining ones.

    `cost` is the kernel's share of a step of `home`, the program in which it is measured; `futile` counts the
    candidates tried since the last improvement.
    """

    label: str
    default: Tunable
    candidates: list[Any] | None = None
    """The remaining candidates; None until the first is requested, after the first step."""
    cost: float = 0.0
    home: weakref.ref[Program] | None = None
    tried: int = 1
    futile: int = 0
    seconds: float = 0.0
    skipped: Counter[str] = field(default_factory=Counter)
    survivors: list[tuple[float, Any, Answer]] = field(default_factory=list)
    contest: Contest | None = None
    find: Callable[[], list[Any]] = list

    def left(self) -> list[Any]:
        """The remaining candidates."""
        if self.candidates is None:
            self.candidates = self.find()
        return self.candidates

    def take(self, parameters: Any, answer: Answer, threads: int) -> None:
        """Records the result of a candidate. Its time is scaled by the imbalance of its tasks over the threads."""
        self.tried += 1
        self.seconds += answer.processor_seconds
        self.futile += 1
        if answer.reason:
            self.skipped[answer.reason] += 1
            return
        template, spec = self.default.template, self.default.spec
        time = answer.seconds * _unevenness(template.tasks(spec, parameters), threads)
        default = answer.default_seconds * _unevenness(self.default.tasks, threads)
        if time < PROMISING * min([default, *(known for known, _, _ in self.survivors)]):
            self.futile = 0
        if time > SLOWER * default:
            self.skipped["slower"] += 1
        else:
            self.survivors.append((time, parameters, answer))

    def finalists(self) -> list[tuple[Any, Answer]]:
        """The challengers for the contest, best first."""
        ranked = sorted(self.survivors, key=lambda survivor: survivor[0])
        self.skipped["slower"] += max(0, len(ranked) - FINALISTS)
        self.skipped += Counter()  # `+` drops zero counts
        return [(parameters, answer) for _, parameters, answer in ranked[:FINALISTS]]


def _unevenness(tasks: int, threads: int) -> float:
    """Time of the busiest thread relative to the mean."""
    return -(-tasks // threads) * threads / max(1, tasks)


class Queue:
    """Sends candidates to helpers, those of the most expensive kernel first, and collects their answers."""

    def __init__(
        self, helpers: Sequence[Helper], target: native.Target, threads: int, deadline: float,
        patience: int | None = None,
    ) -> None:  # fmt: skip
        """`patience`: number of consecutive candidates without improvement after which a decision skips the rest."""
        self._patience = patience
        self._helpers, self._target, self._threads, self._deadline = list(helpers), target, threads, deadline
        self._waiting: list[Decision] = []
        self._at: dict[Helper, tuple[Decision, Any]] = {}
        self.processor_seconds, self.tried = 0.0, 0

    def add(self, decision: Decision) -> None:
        """Adds a decision whose candidates will be tried."""
        self._waiting.append(decision)

    @property
    def now(self) -> str:
        """The labels of the kernels whose candidates are being tried."""
        return ", ".join(dict.fromkeys(decision.label for decision, _ in self._at.values()))

    @property
    def is_trying(self) -> bool:
        """Whether a helper is trying a candidate."""
        return bool(self._at)

    def poll(self, allowed: Callable[[], bool], seconds: float = 0.0) -> list[Decision]:
        """Receives answers, waiting at most `seconds` for each helper, and sends jobs if `allowed`; returns complete
        decisions.
        """
        ready: list[Decision] = []
        for helper in self._helpers:
            answer = helper.poll(seconds) if helper in self._at else None
            if answer is not None:
                decision, parameters = self._at.pop(helper)
                self.processor_seconds += answer.processor_seconds
                self.tried += 1
                decision.take(parameters, answer, self._threads)
                if self._patience is not None and decision.futile >= self._patience and decision.left():
                    decision.skipped["unpromising"] += len(decision.left())
                    decision.left().clear()
                    self._waiting.remove(decision)
                busy = any(other is decision for other, _ in self._at.values())
                if not decision.left() and not busy:
                    ready.append(decision)
            if helper not in self._at and allowed():
                ready += self._send(helper)
        return ready

    def _send(self, helper: Helper) -> list[Decision]:
        """Sends the next candidate to a helper; returns decisions that have no candidates left."""
        ready: list[Decision] = []
        while self._waiting:
            decision = max(self._waiting, key=lambda item: item.cost)
            if decision.left():
                parameters = decision.left().pop(0)
                if not decision.left():
                    self._waiting.remove(decision)
                self._at[helper] = decision, parameters
                helper.ask(Job(decision.default, parameters, self._target, self._deadline))
                break
            self._waiting.remove(decision)
            ready.append(decision)
        return ready

    def close(self) -> None:
        """Ends the helpers; their current candidates are abandoned."""
        for helper in self._helpers:
            helper.close()
        self._at.clear()
        self._waiting.clear()
