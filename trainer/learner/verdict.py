"""What a guard decides: handed from whoever finds it up to the loop, which alone acts on it."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.learner.failures import TrainingFailure


@dataclass(frozen=True)
class Verdict:
    """Training can't go on as it is: it ends by `failure`, or goes back to its last checkpoint where `goes_back`."""

    failure: TrainingFailure
    goes_back: bool = False
