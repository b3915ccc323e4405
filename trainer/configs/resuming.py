"""Effects of changed values on a resumed run (some have none): its saved state was made with the previous values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.configs.problems import KeyPath, dotted
from trainer.configs.run import RunConfig

_THE_DATA = "the position in the data and the counts so far belong to the previous data"
_THE_OPTIMIZER = "its state (momentum, averages, counts) was computed with the previous settings"

EFFECTS: dict[str, str | None] = {
    "task": "the checkpoint's arrays belong to the previous task's networks",
    "options": "the task uses them to build its networks; networks of other shapes can't load the checkpoint",
    "name": None,
    "seed": "the order of the data and all random numbers of the remaining steps change",
    "device": "the remaining steps round differently from the previous ones",
    "threads": None,
    "numerics": "the remaining steps round differently from the previous ones",
    "autotune": None,
    "data": _THE_DATA,
    "data.batch_size": "the number of steps per epoch changes, the position in the data moves, and the learning rate "
    "applies to another number of items per step",
    "data.valid_batch_size": None,
    "data.workers": None,
    "data.worker_kind": None,
    "data.prefetch": None,
    "data.cache_gb": None,
    "data.on_error": None,
    "model": "weights are loaded at the start of a run only; the checkpoint replaces them",
    "optimizer": _THE_OPTIMIZER,
    "optimizers": _THE_OPTIMIZER,
    "schedule": "the learning rate jumps to the new schedule's value at this step",
    "train.epochs": None,
    "train.steps": None,
    "train.minutes": None,
    "train.log_every_steps": None,
    "train.on_nan": None,
    "train.nan_limit": None,
    "train.spike": None,
    "train.watchdog_minutes": None,
    "train.accumulate": "the number of steps per epoch changes, and each step uses another number of items",
    "train.processes": None,
    "train.shard_optimizer": None,
    "train.shards": "the remaining steps sum gradients and statistics in another order",
    "train.precision": "the remaining steps round differently from the previous ones",
    "train.gradient_clip_norm": "the remaining steps are clipped differently from the previous ones",
    "train.gradient_clip_value": "the remaining steps are clipped differently from the previous ones",
    "train.ema": "the averaged weights were computed with the previous decay, or don't exist",
    "train.overfit_batches": _THE_DATA,
    "train.rollback_factor": "the effect of earlier rollbacks on the learning rate changes",
    "metrics": "the metric sums so far belong to the previous list",
    "validate": None,
    "checkpoint": None,
    "early_stopping": None,
    "sweep": None,
    "sinks": None,
    "hooks": "the code that runs during training changes",
}
"""The effect of a change by key; a row covers all keys below it without their own row. None: no effect on the saved
state, so the value may be changed freely.
"""


@dataclass(frozen=True)
class Change:
    """A key whose value differs from before; None stands for a missing key. `effect` is as in EFFECTS."""

    key: str
    before: Any
    after: Any
    effect: str | None

    def __str__(self) -> str:
        return f"{self.key}: {_short(self.before)}, now {_short(self.after)}: {self.effect or 'no effect on the state'}"


def changes(before: RunConfig, after: RunConfig) -> list[Change]:
    """The differences between two resolved configurations, in the order of the sections."""
    found = _differences(_tree(before), _tree(after), ())
    return [Change(dotted(path), one, other, effect_of(path)) for path, one, other in found]


def effect_of(path: KeyPath) -> str | None:
    """The effect of changing the key, from its row in EFFECTS or the nearest row above.

    Raises:
        KeyError: EFFECTS has no row.
    """
    for length in range(len(path), 0, -1):
        if (key := dotted(path[:length])) in EFFECTS:
            return EFFECTS[key]
    raise KeyError(dotted(path))


def what_state_rests_on(config: RunConfig) -> dict[str, Any]:
    """The configuration without the values that may be changed freely."""
    return _kept(_tree(config), ())


def _kept(tree: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in tree.items():
        here = (*path, key)
        if not path and any(line.startswith(f"{key}.") for line in EFFECTS):
            kept[key] = _kept(value, here)
        elif effect_of(here) is not None:
            kept[key] = value
    return kept


def _tree(config: RunConfig) -> dict[str, Any]:
    tree: dict[str, Any] = config.model_dump(mode="json", by_alias=True, exclude={"extends"})
    return tree


def _differences(before: Any, after: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _differences(before.get(key), after.get(key), (*path, key))
    elif before != after:
        yield path, before, after


def _short(value: Any, limit: int = 60) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
