"""`trainer runs list`: lists the runs of a folder in a table, the latest last."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.rundir import RunSummary

EXAMPLES = (
    """\
  trainer runs                              the runs in runs/
  trainer runs list /data/experiments       the """
    """runs of another folder
  trainer runs --metric valid/accuracy --sort valid/accuracy
  trainer runs --status """
    """failed --json
  trainer runs --tag baseline               runs with this tag, see `trainer runs tag`
"""
)

STATUSES = ("done", "stopped", "interrupted", "failed", "running", "starting", "lost")
SHOWN_METRICS = 3
"""Metrics in the table by default."""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="folder of the runs (default: runs)")
    parser.add_argument("--metric", action="append", metavar="NAME", help="show this metric; may be repeated")
    parser.add_argument("--sort", metavar="NAME", help="sort by the latest value of this metric, the best run last")
    parser.add_argument(
        "--status", action="append", choices=STATUSES, help="only runs with this status; may be repeated"
    )
    parser.add_argument("--tag", action="append", metavar="TAG", help="only runs with this tag; may be repeated")
    parser.add_argument("--json", action="store_true", help="print one JSON object per run")


def execute(arguments: argparse.Namespace) -> int:
    from trainer import TrainerError
    from trainer.cli.find import RUNS
    from trainer.cli.summaries import summaries
    from trainer.rundir import list_runs

    folder = arguments.folder or RUNS
    found = summaries(list_runs(folder))
    if not found:
        raise TrainerError("no runs here", where=folder, hint="`trainer run digits` creates one.")
    shown = [
        run for run in found
        if (arguments.status is None or run.status in arguments.status) and {*(arguments.tag or ())} <= {*run.tags}
    ]  # fmt: skip
    _refuse_unknown(found, [*(arguments.metric or ()), *([arguments.sort] if arguments.sort else ())])
    if arguments.sort:
        shown.sort(key=lambda run: _rank(arguments.sort, run))
    if arguments.json:
        import json

        from trainer.rundir import json_value

        for run in shown:
            print(json.dumps(json_value(_plain(run))))
        return 0
    import shutil
    import sys

    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    metrics = arguments.metric or _telling(shown)
    metrics += [arguments.sort] if arguments.sort and arguments.sort not in metrics else []
    print(_table(shown, metrics, columns))
    return 0


def _table(runs: list[RunSummary], metrics: list[str], columns: int | None) -> str:
    import time

    from trainer.cli.table import table
    from trainer.tui.numbers import duration, number
    from trainer.tui.panels.runs import result

    is_mixed, has_tags = not metrics, any(run.tags for run in runs)
    header = ["run", "task", "status", "started", "took", "step", *(["result"] if is_mixed else metrics)]
    header += ["tags"] if has_tags else []
    rows = [
        [
            run.name,
            run.task or "-",
            run.status if run.attempt == 1 else f"{run.status} ({run.attempt})",
            "-" if run.started is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
            "-" if run.seconds is None else duration(run.seconds),
            "-" if run.step is None else str(run.step),
            *(number(run.metrics[name]) if name in run.metrics else "-" for name in metrics),
            *([result(run)] if is_mixed else []),
            *([" ".join(run.tags) or "-"] if has_tags else []),
        ]
        for run in runs
    ]
    right = [False] * 4 + [True] * 2 + ([False] if is_mixed else [True] * len(metrics)) + [False] * has_tags
    return table(header, rows, right=right, width=columns)


def _telling(runs: list[RunSummary]) -> list[str]:
    """The default metrics: the one that selects checkpoints, then the test split before the validation split.

    Losses come last. None if runs select by different metrics: each run then shows its own.
    """
    leading = {run.leading for run in runs if run.leading in run.metrics}
    if len(leading) > 1:
        return []
    names = dict.fromkeys(name for run in runs for name in run.metrics)

    def order(name: str) -> tuple[bool, bool, int]:
        split = name.partition("/")[0]
        return name not in leading, "loss" in name, {"test": 0, "valid": 1}.get(split, 2)

    return sorted((name for name in names if not name.startswith("train/")), key=order)[:SHOWN_METRICS]


def _rank(metric: str, run: RunSummary) -> tuple[bool, float]:
    """Sorts the best run last, and runs without a finite value first."""
    import math

    from trainer.tui.charts import better

    value = run.metrics.get(metric, math.nan)
    if math.isnan(value):
        return False, 0.0
    return True, -value if better(metric) == "min" else value


def _refuse_unknown(runs: list[RunSummary], names: list[str]) -> None:
    from trainer import TrainerError
    from trainer.configs.problems import did_you_mean

    known = sorted({name for run in runs for name in run.metrics})
    for name in names:
        if name not in known:
            raise TrainerError(f"no run has the metric {name}{did_you_mean(name, known)}")


def _plain(run: RunSummary) -> dict[str, object]:
    return {
        "name": run.name,
        "path": str(run.paths.root),
        "task": run.task,
        "device": run.device,
        "status": run.status,
        "attempt": run.attempt,
        "started": run.started,
        "seconds": run.seconds,
        "step": run.step,
        "epoch": run.epoch,
        "metrics": dict(run.metrics),
        "tags": list(run.tags),
    }
