"""How far the training is: what state.json holds beside the arrays."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import trainer
from trainer import TrainerError
from trainer.configs import what_state_rests_on
from trainer.rundir import EventSink, WarningEvent

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.learner.task import Plan


@dataclass
class Progress:
    """Counts of what is done. The position in the data follows from `step`, since every epoch has the same steps."""

    step: int = 0
    validated_step: int = -1
    saved_step: int = -1
    best_value: float | None = None
    best_is_unsaved: bool = False
    patience: tuple[float | None, int, int] = (None, 0, 0)
    seconds: float = 0.0
    rollbacks: int = 0
    finished: str | None = None
    """Why training is over before its planned end."""

    def position(self, plan: Plan) -> tuple[int, int]:
        """(epoch, step within it) that comes next."""
        return divmod(self.step, plan.steps_per_epoch)

    def is_over(self, plan: Plan) -> bool:
        """Whether the last step is done."""
        return self.finished is not None or (plan.total_steps > 0 and self.step >= plan.total_steps)

    def to_json(
        self, config: RunConfig, plan: Plan, sums: Mapping[str, Any], metrics: Mapping[str, float]
    ) -> dict[str, Any]:
        """Everything that the next step depends on and that is no array."""
        epoch, batch = self.position(plan)
        return {
            "step": self.step,
            "epoch": epoch,
            "batch": batch,
            "steps_per_epoch": plan.steps_per_epoch,
            "total_steps": plan.total_steps,
            "validated_step": self.validated_step,
            "best_value": self.best_value,
            "patience": list(self.patience),
            "seconds": round(self.seconds, 3),
            "rollbacks": self.rollbacks,
            "finished": self.finished,
            "sums": dict(sums),
            "metrics": {name: value if math.isfinite(value) else str(value) for name, value in metrics.items()},
            "seed": config.seed,
            "numerics": config.numerics.model_dump(mode="json"),
            "config_sha256": config_hash(config),
            "versions": {"trainer": trainer.__version__, "numpy": np.__version__},
        }

    @classmethod
    def from_json(
        cls,
        state: Mapping[str, Any],
        config: RunConfig,
        plan: Plan,
        sink: EventSink,
        *,
        where: str,
        is_forced: bool = False,
    ) -> Progress:
        """The progress that a checkpoint holds; warns where the config is not the one it was trained with.

        `is_forced`: what does not carry over is no error; the step stays, and the position in the data follows from it.

        Raises:
            TrainerError: the position in the data, the seed or the numerics classes do not carry over.
        """
        expected = {
            "steps_per_epoch": plan.steps_per_epoch,
            "seed": config.seed,
            "numerics": config.numerics.model_dump(mode="json"),
        }
        known = type(config.numerics)().model_dump(mode="json")  # classes that came later than the checkpoint
        state = {**state, "numerics": {**known, **state["numerics"]}}
        for name, value in expected.items():
            if state[name] != value and not is_forced:
                raise TrainerError(
                    f"can't resume with another {name}", where=where, found=value, expected=f"{state[name]}, as before",
                    hint="Start a new run with model.weights set to this checkpoint instead.",
                )  # fmt: skip
        if state["config_sha256"] != config_hash(config):
            sink(WarningEvent("The config is not the one that this run was started with.", where=where))
        return cls(
            step=state["step"],
            validated_step=state["validated_step"],
            saved_step=state["step"],
            best_value=state["best_value"],
            patience=tuple(state["patience"]),
            seconds=state["seconds"],
            rollbacks=state["rollbacks"],
            finished=state["finished"],
        )


def config_hash(config: RunConfig) -> str:
    """A hash of what the state rests on: all but what may be changed freely."""
    return hashlib.sha256(json.dumps(what_state_rests_on(config), sort_keys=True).encode()).hexdigest()
