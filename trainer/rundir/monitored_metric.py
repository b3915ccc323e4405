"""The monitored metric, by which the config selects the best checkpoint, and the order of the other metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainer.rundir.layout import RunPaths

NAMED = 4
"""Maximum number of metrics in a line of a log or a summary; tables have all metrics."""

_SPLITS = {"test": 0, "valid": 1, "train": 3}
_OTHER_SPLIT = 2


@dataclass(frozen=True)
class Best:
    """The best value of the monitored metric so far, and the step at which it was measured."""

    value: float
    step: int


def best_of(paths: RunPaths) -> Best | None:
    """The value and step in the manifest of the best checkpoint; None without a checkpoint, or if it is damaged."""
    folder = paths.pointed("best")
    if folder is None:
        return None
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        value, step = float(manifest["value"]), int(manifest["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Best(value, step) if math.isfinite(value) else None


def by_importance(names: Iterable[str], monitored: str | None) -> list[str]:
    """Names of metrics, "split/name", the most important first.

    The order: the monitored metric; the same metric of other splits and of other weights; the loss; all other metrics
    in their given order. The test split precedes the validation split, and training is last. Without a monitored
    metric, a metric that is not a loss takes its place.
    """
    listed = list(dict.fromkeys(names))
    first = monitored or min(listed, key=lambda name: ("loss" in name, _split_rank(name)), default="")
    same = first.partition("/")[2]
    weights, quantity = ("ema/" if same.startswith("ema/") else ""), same.removeprefix("ema/")

    def rank(name: str) -> tuple[int, int]:
        if name == first:
            return 0, 0
        for place, ending in enumerate((same, quantity, f"{weights}loss", "loss"), start=1):
            if ending and name.endswith(f"/{ending}") and name.count("/") <= ending.count("/") + 2:
                return place, _split_rank(name)
        return 5, _split_rank(name)

    return sorted(listed, key=rank)


def named_first(values: Mapping[str, float], monitored: str | None, most: int = NAMED) -> tuple[dict[str, float], int]:
    """The `most` most important metrics, which fit in a line, in order of importance, and the number of omitted ones.

    Without a monitored metric, the order is kept if all metrics fit. A NaN goes last, unless it is a loss or the
    monitored metric: it is the value of a metric without data, such as the AP of large objects.
    """
    ordered = by_importance(values, monitored) if monitored is not None or len(values) > most else [*values]
    ordered.sort(key=lambda name: math.isnan(values[name]) and "loss" not in name and name != monitored)
    return {name: values[name] for name in ordered[:most]}, max(0, len(ordered) - most)


def _split_rank(name: str) -> int:
    return _SPLITS.get(name.partition("/")[0], _OTHER_SPLIT)
