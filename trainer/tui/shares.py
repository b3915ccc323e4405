"""Which share of a training step each kernel takes, from a run's `step` events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainer.rundir import AutotuneEvent, StepEvent


@dataclass(frozen=True)
class Shares:
    """A step's time in milliseconds, and the shares of it (0 to 1): by key of a tuned kernel, and by name of others.

    `elsewhere` has the keys and names of what programs consist of that are no part of a step.
    """

    ms: float
    kernels: dict[str, float]
    others: dict[str, float]
    elsewhere: frozenset[str] = frozenset()

    def of(self, event: AutotuneEvent) -> float | None:
        """The share of a kernel that was decided, maybe since the step was timed; None where it is in no step.

        A name that an evaluation has, too, does not say which of the two was decided: that comes with its key.
        """
        if event.key in self.kernels or event.key in self.elsewhere or name_of(event) in self.elsewhere:
            return self.kernels.get(event.key)
        return self.others.get(name_of(event))


def name_of(event: AutotuneEvent) -> str:
    """What a kernel is called among those that are not decided."""
    return f"{event.operation} {event.shape}"


def shares_of(steps: Iterable[StepEvent]) -> Shares:
    """The shares in the programs that update something, each counted once: an evaluation is no part of a step.

    Args:
        steps: the latest of each program.
    """
    steps = list(steps)
    training = [step for step in steps if step.updates]
    total = sum(step.ms for step in training)
    kernels: dict[str, float] = {}
    others: dict[str, float] = {}
    for step in training:
        for found, told in ((kernels, step.kernels), (others, step.others)):
            for name, ms in told.items():
                found[name] = found.get(name, 0.0) + ms / total
    elsewhere = frozenset(name for step in steps if not step.updates for name in (*step.kernels, *step.others))
    return Shares(total, kernels, others, elsewhere)
