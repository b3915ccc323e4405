"""The progress of a training: the part of the state in state.json, next to the arrays."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

import trainer
from trainer import TrainerError
from trainer.configs import what_state_rests_on
from trainer.rundir import EventSink, WarningEvent

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.learner.plan import Plan


@dataclass
class Progress:
    """Counters of the training. The position in the data follows from `step`, since every epoch has the same number of
    steps.
    """

    step: int = 0
    micro_batch: int = 0
    """Number of completed micro-batches of the next step, if a stop could not wait for the step's end."""
    validated_step: int = -1
    saved_step: int = -1
    saved_at: tuple[int, int] = (0, -1)
    """The `micro_batch` and `validated_step` of the checkpoint of `saved_step`."""
    best_value: float | None = None
    best_is_unsaved: bool = False
    patience: tuple[float | None, int, int] = (None, 0, 0)
    recent: tuple[float, ...] = ()
    """Recent values of the metric that `train.spike` monitors."""
    seconds: float = 0.0
    rollbacks: int = 0
    finished: str | None = None
    """The reason if training ended before its planned end."""

    def position(self, plan: Plan) -> tuple[int, int]:
        """The next (epoch, step within it)."""
        return divmod(self.step, plan.steps_per_epoch)

    @property
    def is_saved(self) -> bool:
        """Whether a checkpoint of exactly this state exists."""
        return self.saved_step == self.step and self.saved_at == (self.micro_batch, self.validated_step)

    @property
    def is_saved_whole(self) -> bool:
        """Whether a checkpoint exists from the end of the last step, before the next one began."""
        return self.saved_step == self.step and self.saved_at[0] == 0

    def note_saved(self, progress: Progress) -> None:
        """Notes that a checkpoint of `progress` is being written."""
        self.saved_step, self.saved_at = progress.step, (progress.micro_batch, progress.validated_step)

    def is_over(self, plan: Plan) -> bool:
        """Whether the last step is complete."""
        return self.finished is not None or (plan.total_steps > 0 and self.step >= plan.total_steps)

    def to_json(
        self, config: RunConfig, plan: Plan, sums: Mapping[str, Any], metrics: Mapping[str, float]
    ) -> dict[str, Any]:
        """Everything that the next step depends on, except arrays."""
        epoch, batch = self.position(plan)
        return {
            "step": self.step,
            "epoch": epoch,
            "batch": batch,
            "micro_batch": self.micro_batch,
            "steps_per_epoch": plan.steps_per_epoch,
            "total_steps": plan.total_steps,
            "validated_step": self.validated_step,
            "best_value": self.best_value,
            "patience": list(self.patience),
            "recent": [_plain(value) for value in self.recent],
            "seconds": round(self.seconds, 3),
            "rollbacks": self.rollbacks,
            "finished": self.finished,
            "sums": dict(sums),
            "metrics": {name: _plain(value) for name, value in metrics.items()},
            "seed": config.seed,
            "numerics": _numerics(config),
            "config": config.model_dump(mode="json", by_alias=True),
            "config_sha256": config_hash(config),
            "versions": versions(),
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
        """The progress stored in a checkpoint; warns if the config differs from that of the training.

        `is_forced`: differences are accepted; the step is kept, and the position in the data follows from it.

        Raises:
            TrainerError: the position in the data, the seed or the numerics class differ.
        """
        expected = {
            "steps_per_epoch": plan.steps_per_epoch,
            "seed": config.seed,
            "numerics": _numerics(config),
        }
        # settings added after the checkpoint was written
        known = {**type(config.numerics)().model_dump(mode="json"), "shards": 1}
        state = {**state, "numerics": {**known, **state["numerics"]}}
        for name, value in expected.items():
            if state[name] != value and not is_forced:
                raise TrainerError(
                    f"can't resume with a different {name}", where=where, found=value,
                    expected=f"{state[name]}, as before",
                    hint="Start a new run with model.weights set to this checkpoint instead.",
                )  # fmt: skip
        if state["config_sha256"] != config_hash(config):
            sink(WarningEvent("The config differs from the one that this run was started with.", where=where))
        if found := other_versions(state["versions"]):
            sink(
                WarningEvent(f"{found}: the remaining steps may round differently from the previous ones.", where=where)
            )
        return cls(
            step=index(state["step"]),
            micro_batch=state.get("micro_batch", 0),
            validated_step=state["validated_step"],
            saved_step=state["step"],
            saved_at=(state.get("micro_batch", 0), state["validated_step"]),
            best_value=state["best_value"],
            patience=tuple(state["patience"]),
            recent=tuple(map(float, state.get("recent", ()))),
            seconds=state["seconds"],
            rollbacks=state["rollbacks"],
            finished=state["finished"],
        )


def versions() -> dict[str, str]:
    """The package versions on which the bits of a step depend."""
    return {
        "trainer": trainer.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": importlib.metadata.version("llvmlite"),
        "pillow": importlib.metadata.version("pillow"),
    }


def other_versions(before: Mapping[str, str]) -> str:
    """The changed versions, as text; versions missing from the checkpoint are ignored."""
    now = versions()
    others = [name for name in now if before.get(name, now[name]) != now[name]]
    return ", ".join(f"{name} was {before[name]}, now {now[name]}" for name in others)


def _numerics(config: RunConfig) -> dict[str, Any]:
    """All values of the config that determine the bits of a computation."""
    return {**config.numerics.model_dump(mode="json"), "shards": config.train.shards}


def _plain(value: float) -> float | str:
    """The value for JSON: text if it is not finite."""
    return value if math.isfinite(value) else str(value)


def config_hash(config: RunConfig) -> str:
    """A hash of the config on which the state depends: all except freely changeable values."""
    return hashlib.sha256(json.dumps(what_state_rests_on(config), sort_keys=True).encode()).hexdigest()
