"""`trainer compare`: compares runs — their metrics, their curves in one chart, the differences of their configs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.rundir import Run
    from trainer.tui.comparison import Comparison, Reading

EXAMPLES = """\
  trainer compare digits digits-2
  trainer compare digits digits-2 digits-3 --metric valid/accuracy
  trainer compare runs/a /data/runs/b --json
"""

MOST_RUNS = 26
CHART_LINES = 14
WITHOUT_TERMINAL = 100


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directories, or names of runs in runs/")
    parser.add_argument(
        "--metric", action="append", metavar="NAME", help="show the curves of this metric; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    from trainer import TrainerError
    from trainer.cli.find import find_run
    from trainer.rundir import open_run
    from trainer.tui.comparison import compare

    if not 2 <= len(arguments.runs) <= MOST_RUNS:
        raise TrainerError("compare needs several runs", found=str(len(arguments.runs)), expected="2 to 26 runs")
    runs = [open_run(find_run(word).root) for word in arguments.runs]
    found = compare(runs)
    curves = arguments.metric or _telling(found, [run.paths.leading_metric for run in runs])
    _refuse_unknown(curves, found)
    if arguments.json:
        import json

        from trainer.rundir import json_value

        print(json.dumps(json_value(_plain(runs, found)), indent=1))
        return 0
    print("\n".join(_lines(runs, found, curves)))
    return 0


def _lines(runs: Sequence[Run], found: Comparison, curves: Sequence[str]) -> list[str]:
    import shutil
    import sys

    from trainer.cli.curves import letters, overlaid
    from trainer.cli.table import table

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WITHOUT_TERMINAL
    marks = letters(found.names)
    lines = [
        f"{mark}  {run.name}  ({run.status}{f', attempt {run.attempt}' if run.attempt > 1 else ''})"
        for mark, run in zip(marks, runs, strict=True)
    ]
    leading = {run.paths.leading_metric for run in runs}
    names = sorted(found.metrics, key=lambda name: name not in leading)
    rows = [(name, *map(_cell, found.metrics[name])) for name in names]
    lines += ["", table(("last (best @ step)", *marks), rows, right=[False] + [True] * len(runs), width=width)]
    for name in curves:
        series = {
            mark: run.metrics[name]
            for mark, run in zip(marks, runs, strict=True)
            if name in run.metrics and len(run.metrics[name])
        }
        lines += ["", f"{name}   (* marks overlapping curves)", *overlaid(series, width, CHART_LINES)]
    for title, differences in (("config", found.config), ("environment", found.environment)):
        if not differences:
            lines += ["", f"{title}: no difference"]
            continue
        rows = [(key, *(_value(value) for value in values)) for key, values in differences.items()]
        lines += ["", table((f"{title} differs in", *marks), rows, right=[False] * (len(runs) + 1), width=width)]
    return lines


def _cell(reading: Reading | None) -> str:
    from trainer.tui.numbers import number

    if reading is None:
        return "-"
    if reading.best == reading.last:
        return number(reading.last)
    return f"{number(reading.last)} ({number(reading.best)} @ {reading.best_step:g})"


def _value(value: Any) -> str:
    import json

    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _telling(found: Comparison, leading: Sequence[str | None]) -> list[str]:
    """The default metrics: the one that selects checkpoints, and a loss.

    If no run has that metric, the first validation metric that is not a loss replaces it.
    """
    measured = [name for name in found.metrics if name.startswith("valid/")]
    best = next((name for name in leading if name in found.metrics), None)
    best = best or next((name for name in measured if "loss" not in name), None)
    loss = next((name for name in ("valid/loss", "train/loss") if name in found.metrics), None)
    return [name for name in dict.fromkeys((best, loss)) if name is not None]


def _refuse_unknown(names: Sequence[str], found: Comparison) -> None:
    from trainer import TrainerError
    from trainer.configs.problems import did_you_mean

    for name in names:
        if name not in found.metrics:
            raise TrainerError(f"none of these runs has the metric {name}{did_you_mean(name, found.metrics)}")


def _plain(runs: Sequence[Run], found: Comparison) -> dict[str, object]:
    return {
        "runs": [
            {"name": run.name, "path": str(run.paths.root), "status": run.status, "attempt": run.attempt}
            for run in runs
        ],
        "metrics": {
            name: [
                None
                if reading is None
                else {
                    "last": reading.last,
                    "last_step": reading.last_step,
                    "best": reading.best,
                    "best_step": reading.best_step,
                }
                for reading in readings
            ]
            for name, readings in found.metrics.items()
        },
        "config": {key: list(values) for key, values in found.config.items()},
        "environment": {key: list(values) for key, values in found.environment.items()},
    }
