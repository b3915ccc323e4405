"""Compares several runs: each metric, and the differences between configurations and environments."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.configs.problems import Place
from trainer.configs.reader import read_yaml
from trainer.rundir import Run, Series
from trainer.tui.charts import better

NOT_COMPARED = ("command", "started", "python", "platform", "directory")
"""Keys of an environment that differ between equal setups."""

ABSENT = "-"


@dataclass(frozen=True)
class Reading:
    """One metric of one run; `best` is its minimum or maximum, decided from the metric's name."""

    last: float
    last_step: float
    best: float
    best_step: float


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`.

    Attributes:
        metrics: by "split/name", a reading for each run; None for a run without the metric.
        config, environment: by dotted key, the value in each run (`ABSENT` for a run without the key); only keys with
            different values.
    """

    names: tuple[str, ...]
    metrics: Mapping[str, tuple[Reading | None, ...]]
    config: Mapping[str, tuple[Any, ...]]
    environment: Mapping[str, tuple[Any, ...]]


def compare(runs: Sequence[Run]) -> Comparison:
    """Compares the runs, in the given order."""
    names = sorted(dict.fromkeys(name for run in runs for name in run.metrics), key=_splits_in_order)
    return Comparison(
        names=tuple(run.name for run in runs),
        metrics={name: tuple(_reading(name, run.metrics.get(name)) for run in runs) for name in names},
        config=_differences([config_of(run) for run in runs]),
        environment=_differences([_environment(run) for run in runs]),
    )


def _splits_in_order(name: str) -> tuple[int, str]:
    return ({"test": 0, "valid": 1}.get(name.partition("/")[0], 2), name)


def _reading(name: str, series: Series | None) -> Reading | None:
    if series is None or not len(series):
        return None
    finite = [index for index, value in enumerate(series.value) if math.isfinite(value)]
    sign = 1 if better(name) == "min" else -1
    best = min(finite, key=lambda index: sign * series.value[index], default=len(series) - 1)
    return Reading(series.value[-1], series.step[-1], series.value[best], series.step[best])


def _differences(trees: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    rows = [dict(leaves(tree)) for tree in trees]
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = {key: tuple(row.get(key, ABSENT) for row in rows) for key in keys}
    return {key: values for key, values in columns.items() if any(value != values[0] for value in values)}


def leaves(tree: Mapping[str, Any], at: str = "") -> list[tuple[str, Any]]:
    """(dotted key, value) of all values except nonempty mappings."""
    pairs: list[tuple[str, Any]] = []
    for key, value in tree.items():
        dotted = f"{at}{key}"
        if isinstance(value, Mapping) and value:
            pairs += leaves(value, f"{dotted}.")
        else:
            pairs.append((dotted, value))
    return pairs


def config_of(run: Run) -> Mapping[str, Any]:
    """The resolved configuration as a tree."""
    value = read_yaml(run.config_text, Place(run.name)).value
    return value if isinstance(value, dict) else {}


def _environment(run: Run) -> Mapping[str, Any]:
    try:
        content = json.loads(run.paths.environment(max(run.paths.last_attempt, 1)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_mapping = isinstance(content, dict)
    return {key: value for key, value in content.items() if key not in NOT_COMPARED} if is_mapping else {}
