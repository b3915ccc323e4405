"""How far the training is: what state.json holds beside the arrays."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import trainer
from trainer import TrainerError
from trainer.rundir import EventSink, WarningEvent

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.learner.task import Plan


@dataclass
class Progress:
    """Counts of what is done. The position in the data follows from `step`, since every epoch has the same steps."""

    step: int = 0
    finished_epochs: int = 0
    validated_step: int = -1
    saved_step: int = -1
    best_value: float | None = None

    def position(self, plan: Plan) -> tuple[int, int]:
        """(epoch, batch within it) that comes next."""
        return divmod(self.step, plan.steps_per_epoch)

    def epoch_end_is_due(self, plan: Plan) -> bool:
        """Whether an epoch is complete whose validation and checkpoint are not."""
        return self.step // plan.steps_per_epoch > self.finished_epochs

    def to_json(
        self, config: RunConfig, plan: Plan, accumulators: Mapping[str, list[str]], metrics: Mapping[str, float]
    ) -> dict[str, Any]:
        """Everything that the next step depends on and that is no array."""
        epoch, batch = self.position(plan)
        return {
            "step": self.step,
            "epoch": epoch,
            "batch": batch,
            "steps_per_epoch": plan.steps_per_epoch,
            "total_steps": plan.total_steps,
            "finished_epochs": self.finished_epochs,
            "validated_step": self.validated_step,
            "best_value": self.best_value,
            "accumulators": {name: list(parts) for name, parts in accumulators.items()},
            "metrics": {name: value if math.isfinite(value) else str(value) for name, value in metrics.items()},
            "seed": config.seed,
            "numerics": config.numerics.model_dump(mode="json"),
            "config_sha256": config_hash(config),
            "versions": {"trainer": trainer.__version__, "numpy": np.__version__},
        }

    @classmethod
    def from_json(
        cls, state: Mapping[str, Any], config: RunConfig, plan: Plan, sink: EventSink, *, where: str
    ) -> Progress:
        """The progress that a checkpoint holds; warns where the config is not the one it was trained with.

        Raises:
            TrainerError: the position in the data, the seed or the numerics classes do not carry over.
        """
        expected = {
            "steps_per_epoch": plan.steps_per_epoch,
            "seed": config.seed,
            "numerics": config.numerics.model_dump(mode="json"),
        }
        for name, value in expected.items():
            if state[name] != value:
                raise TrainerError(
                    f"can't resume with another {name}", where=where, found=value, expected=f"{state[name]}, as before",
                    hint="Start a new run with model.weights set to this checkpoint instead.",
                )  # fmt: skip
        if state["config_sha256"] != config_hash(config):
            sink(WarningEvent("The config is not the one that this run was started with.", where=where))
        return cls(state["step"], state["finished_epochs"], state["validated_step"], state["step"], state["best_value"])


def config_hash(config: RunConfig) -> str:
    """A hash of what the config sets, but for how long training lasts, what it is called and how kernels are tuned."""
    return hashlib.sha256(
        config.model_dump_json(exclude={"name": True, "tuning": True, "train": {"epochs", "steps"}}).encode()
    ).hexdigest()
