"""The share of each kernel in a training step, from the `step` events of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainer.rundir import AutotuneEvent, StepEvent


@dataclass(frozen=True)
class Shares:
    """A step's time in milliseconds, and its shares (0 to 1): by key for tuned kernels, and by name for the others.

    `elsewhere` has the keys and names of kernels in programs other than a training step.
    """

    ms: float
    kernels: dict[str, float]
    others: dict[str, float]
    elsewhere: frozenset[str] = frozenset()

    def of(self, event: AutotuneEvent) -> float | None:
        """The share of a kernel with a decision, also one made after the step was timed; None outside of a step.

        A name that is also part of an evaluation is ambiguous; the key is not.
        """
        if event.key in self.kernels or event.key in self.elsewhere or name_of(event) in self.elsewhere:
            return self.kernels.get(event.key)
        return self.others.get(name_of(event))


def name_of(event: AutotuneEvent) -> str:
    """The name that identifies a kernel without a decision."""
    return f"{event.operation} {event.shape}"


def shares_of(steps: Iterable[StepEvent]) -> Shares:
    """The shares in the programs that update states, each counted once; an evaluation is not part of a step.

    Args:
        steps: the latest event of each program.
    """
    steps = list(steps)
    training = [step for step in steps if step.updates]
    total = sum(step.ms for step in training)
    kernels: dict[str, float] = {}
    others: dict[str, float] = {}
    for step in training:
        for total_of, times in ((kernels, step.kernels), (others, step.others)):
            for name, ms in times.items():
                total_of[name] = total_of.get(name, 0.0) + ms / total
    elsewhere = frozenset(name for step in steps if not step.updates for name in (*step.kernels, *step.others))
    return Shares(total, kernels, others, elsewhere)
