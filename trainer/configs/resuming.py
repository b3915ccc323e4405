"""What another value means to a run that is resumed: nothing, or something that its state was not made for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.configs.problems import KeyPath, dotted
from trainer.configs.run import RunConfig

_THE_DATA = "the position in the data and what was counted so far are of the former data"
_THE_OPTIMIZER = "its state (momentum, averages, counts) was gathered by the former settings"

EFFECTS: dict[str, str | None] = {
    "task": "the checkpoint's arrays belong to the former task's networks",
    "options": "the task decides what they are; networks of other shapes can't take the checkpoint's arrays",
    "name": None,
    "seed": "the order of the data and all randomness of the steps to come change",
    "device": "steps to come round in another way than those before",
    "threads": None,
    "numerics": "steps to come round in another way than those before",
    "autotune": None,
    "data": _THE_DATA,
    "data.batch_size": "epochs get another number of steps, the position in the data moves, and a step means another "
    "number of samples to the learning rate",
    "data.valid_batch_size": None,
    "data.workers": None,
    "data.worker_kind": None,
    "data.prefetch": None,
    "data.cache_gb": None,
    "data.on_error": None,
    "model": "weights are loaded at the start of a run only; the checkpoint's replace them",
    "optimizer": _THE_OPTIMIZER,
    "optimizers": _THE_OPTIMIZER,
    "schedule": "the learning rate jumps to what the other schedule has at this step",
    "train.epochs": None,
    "train.steps": None,
    "train.minutes": None,
    "train.log_every_steps": None,
    "train.on_nan": None,
    "train.nan_limit": None,
    "train.spike": None,
    "train.watchdog_minutes": None,
    "train.accumulate": "epochs get another number of steps, and each step means another number of samples",
    "train.precision": "steps to come round in another way than those before",
    "train.gradient_clip_norm": "steps to come are limited in another way than those before",
    "train.gradient_clip_value": "steps to come are limited in another way than those before",
    "train.ema": "the averaged weights are of the former average, or not there at all",
    "train.rollback_factor": "what earlier rollbacks made of the learning rate changes",
    "metrics": "sums of the metrics so far are those of the former list",
    "validate": None,
    "checkpoint": None,
    "early_stopping": None,
    "sinks": None,
    "hooks": "code that acts on the training is another",
}
"""By key, which stands for all below it that have no line of their own: what a change does; None: nothing to the state,
and so it may be changed freely."""


@dataclass(frozen=True)
class Change:
    """A key with another value than before; None stands for a key that is not there. `effect` is as in EFFECTS."""

    key: str
    before: Any
    after: Any
    effect: str | None

    def __str__(self) -> str:
        return f"{self.key}: {_short(self.before)}, now {_short(self.after)}: {self.effect or 'no effect on the state'}"


def changes(before: RunConfig, after: RunConfig) -> list[Change]:
    """What differs between two resolved configurations, in the order of the sections."""
    found = _differences(_tree(before), _tree(after), ())
    return [Change(dotted(path), one, other, effect_of(path)) for path, one, other in found]


def effect_of(path: KeyPath) -> str | None:
    """What a change of the key does, by its own line in EFFECTS or the next above it.

    Raises:
        KeyError: EFFECTS has none.
    """
    for length in range(len(path), 0, -1):
        if (key := dotted(path[:length])) in EFFECTS:
            return EFFECTS[key]
    raise KeyError(dotted(path))


def what_state_rests_on(config: RunConfig) -> dict[str, Any]:
    """The configuration without what may be changed freely."""
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
