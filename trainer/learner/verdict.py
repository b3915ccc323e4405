"""The decision of a guard, returned to the loop. Only the loop acts on it."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.learner.failures import TrainingFailure


@dataclass(frozen=True)
class Verdict:
    """Training can't continue: it ends with `failure`, or returns to its last checkpoint if `goes_back`."""

    failure: TrainingFailure
    goes_back: bool = False
