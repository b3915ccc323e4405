"""A table of runs: status and times, the best value of the monitored metric, and config values that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainer.cli.table import table
from trainer.rundir import ABSENT, RunSummary, by_importance, config_values, differing_keys
from trainer.tui.numbers import duration, moment, number

MOST_METRICS = 3
"""Maximum number of metric columns if none are requested; the best value counts as one."""

MOST_KEYS = 6
"""Maximum number of config keys in the table if none are requested."""

MOST_CELLS = 28
"""Maximum width of a config value or a note; the end of a longer value and the beginning of a longer note are shown."""


@dataclass(frozen=True)
class Column:
    """A column of the table. In a narrow terminal, columns with the highest `rank` are dropped first, rank 0 never."""

    title: str
    cells: Sequence[str]
    is_number: bool = False
    rank: int = 0


def configs_of(runs: Sequence[RunSummary]) -> list[Mapping[str, str]]:
    """The config of each run, its values as texts by dotted key; `task` is the task's name."""
    return [{**config_values(run.paths), **({"task": run.task} if run.task else {})} for run in runs]


def keys_that_differ(runs: Sequence[RunSummary], configs: Sequence[Mapping[str, str]]) -> list[str]:
    """Keys whose values differ between runs of the same task, in the order of the configs.

    Runs of different tasks are not compared with each other: nearly everything differs between them.
    """
    found: dict[str, None] = {}
    for task in dict.fromkeys(run.task for run in runs):
        alike = [config for run, config in zip(runs, configs, strict=True) if run.task == task]
        found.update(dict.fromkeys(differing_keys([config for config in alike if len(config) > 1])))
    return list(found)


def telling_metrics(runs: Sequence[RunSummary]) -> list[str]:
    """The metrics whose latest values are shown next to the best one; none if runs monitor different metrics."""
    monitored = {run.leading for run in runs if run.leading is not None}
    if len(monitored) > 1:
        return []
    leading = next(iter(monitored), None)
    names = {name: None for run in runs for name in run.metrics if not name.startswith("train/")}
    ordered = [name for name in by_importance(names, leading) if name != leading]
    return ordered[: MOST_METRICS - (leading is not None)]


def columns_of(
    runs: Sequence[RunSummary], configs: Sequence[Mapping[str, str]], metrics: Sequence[str], keys: Sequence[str]
) -> list[Column]:
    """All columns, in their order."""
    columns = [
        Column("run", [run.name for run in runs]),
        Column("task", [run.task or "-" for run in runs], rank=8),
        Column("status", [run.status if run.attempt == 1 else f"{run.status} ({run.attempt})" for run in runs]),
        Column("started", ["-" if run.started is None else moment(run.started) for run in runs], rank=6),
        Column("took", ["-" if run.seconds is None else duration(run.seconds) for run in runs], True, rank=4),
        Column("step", ["-" if run.step is None else str(run.step) for run in runs], True, rank=7),
    ]
    if best := _best_column(runs):
        columns.append(best)
    for place, name in enumerate(metrics):
        cells = [number(run.metrics[name]) if name in run.metrics else "-" for run in runs]
        columns.append(Column(name, cells, True, rank=3 + (place > 0)))
    for key in keys:
        cells = [_end_of(config.get(key, ABSENT)) for config in configs]
        columns.append(Column(_short(key, keys), cells, rank=5))
    if any(run.tags for run in runs):
        columns.append(Column("tags", [" ".join(run.tags) or "-" for run in runs], rank=2))
    if any(run.note for run in runs):
        columns.append(Column("note", [_beginning_of(run.note) or "-" for run in runs], rank=1))
    return columns


def drawn(columns: Sequence[Column], width: int | None) -> tuple[str, list[str]]:
    """The table in at most `width` cells (None: no limit), and the titles of the columns that did not fit."""
    shown = list(columns)
    left_out: list[str] = []
    while width is not None and _width(shown) > width and any(column.rank for column in shown):
        last = max(range(len(shown)), key=lambda index: (shown[index].rank, index))
        left_out.append(shown.pop(last).title)
    rows = [list(row) for row in zip(*(column.cells for column in shown), strict=True)]
    right = [column.is_number for column in shown]
    text = table([column.title for column in shown], rows, right=right, width=width)
    return text, [column.title for column in columns if column.title in left_out]


def _best_column(runs: Sequence[RunSummary]) -> Column | None:
    """The best value of the monitored metric with its step; the latest value if no checkpoint has one yet."""
    monitored = {run.leading for run in runs if run.leading is not None}
    if not monitored:
        return None
    is_shared = len(monitored) == 1
    cells = []
    for run in runs:
        value = "-"
        if run.best is not None:
            value = f"{number(run.best.value)} @ {run.best.step}"
        elif run.leading is not None and run.leading in run.metrics:
            value = f"{number(run.metrics[run.leading])} (last)"
        cells.append(value if is_shared or value == "-" else f"{run.leading} {value}")
    return Column(f"best {next(iter(monitored))}" if is_shared else "best", cells, is_shared)


def _width(columns: Sequence[Column]) -> int:
    return sum(max(len(cell) for cell in (column.title, *column.cells)) + 2 for column in columns) - 2


def _short(key: str, keys: Sequence[str]) -> str:
    """The last part of a dotted key if no other key has the same; otherwise the whole key."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in keys) == 1 else key


def _end_of(value: str) -> str:
    return value if len(value) <= MOST_CELLS else f"…{value[1 - MOST_CELLS :]}"


def _beginning_of(note: str) -> str:
    line = note.partition("\n")[0]
    return line if len(line) <= MOST_CELLS else f"{line[: MOST_CELLS - 1]}…"
