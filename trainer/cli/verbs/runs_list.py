"""`trainer runs list`: lists the runs of a folder in a table, the latest last."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.rundir import RunSummary

EXAMPLES = """\
  trainer runs                              the runs in runs/
  trainer runs list /data/experiments       the runs of another folder
  trainer runs --sort best                  the best value of the monitored metric last
  trainer runs --metric valid/loss --key optimizer.learning_rate
  trainer runs --where task=digits --where optimizer.learning_rate=0.001
  trainer runs --status failed --json
  trainer runs --tag baseline               runs with this tag, see `trainer runs tag`
"""

PLAIN_KEYS = ("name", "task", "status", "started", "took", "step", "best")
"""Sort keys of runs, in addition to metrics and config keys."""


def describe(parser: argparse.ArgumentParser) -> None:
    from trainer.rundir import STATES

    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="folder of the runs (default: runs)")
    parser.add_argument(
        "--metric", action="append", metavar="NAME", help="show the latest value of this metric; may be repeated"
    )
    parser.add_argument(
        "--key", action="append", metavar="KEY",
        help="show this config key, such as optimizer.learning_rate; may be repeated (default: keys that differ)",
    )  # fmt: skip
    parser.add_argument(
        "--sort", metavar="NAME",
        help="best, a metric (the best run last), name, task, status, started, took, step, or a config key",
    )  # fmt: skip
    parser.add_argument("--reverse", action="store_true", help="reverse the order")
    parser.add_argument("--status", action="append", choices=STATES, help="only runs with this status; may be repeated")
    parser.add_argument("--tag", action="append", metavar="TAG", help="only runs with this tag; may be repeated")
    parser.add_argument(
        "--where", action="append", metavar="KEY=VALUE", help="only runs with this config value; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per run")


def execute(arguments: argparse.Namespace) -> int:
    from trainer import TrainerError
    from trainer.cli.find import RUNS
    from trainer.cli.runs_table import MOST_KEYS, columns_of, configs_of, drawn, keys_that_differ, telling_metrics
    from trainer.cli.summaries import summaries
    from trainer.rundir import list_runs

    folder = arguments.folder or RUNS
    found = summaries(list_runs(folder))
    if not found:
        raise TrainerError("no runs here", where=folder, hint="`trainer run digits` creates one.")
    configs = configs_of(found)
    _refuse_unknown(found, configs, arguments)
    shown = [pair for pair in zip(found, configs, strict=True) if _is_asked_for(*pair, arguments)]
    if arguments.sort:
        shown.sort(key=lambda pair: _rank(arguments.sort, *pair))
    if arguments.reverse:
        shown.reverse()
    runs, configs = [run for run, _ in shown], [config for _, config in shown]
    if arguments.json:
        import json

        from trainer.rundir import json_value

        for run, config in shown:
            print(json.dumps(json_value(_plain(run, config))))
        return 0
    import shutil
    import sys

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    metrics = [*(arguments.metric or telling_metrics(runs))]
    known_metrics = {name for run in runs for name in run.metrics}
    if arguments.sort in known_metrics and arguments.sort not in metrics:
        metrics.append(arguments.sort)
    differing = keys_that_differ(runs, configs)
    keys = arguments.key or differing[:MOST_KEYS]
    text, left_out = drawn(columns_of(runs, configs, metrics, keys), width)
    print(text)
    further = [] if arguments.key else differing[MOST_KEYS:]
    for why, names in ((f"left out in {width} columns", left_out), ("further keys that differ, for --key", further)):
        if names:
            print(f"{why}: {', '.join(names)}", file=sys.stderr)
    return 0


def _is_asked_for(run: RunSummary, config: Mapping[str, str], arguments: argparse.Namespace) -> bool:
    pairs = [pair.partition("=") for pair in arguments.where or ()]
    return (
        (arguments.status is None or run.status in arguments.status)
        and {*(arguments.tag or ())} <= {*run.tags}
        and all(_is_equal(config.get(key, ""), value) for key, _, value in pairs)
    )


def _is_equal(one: str, other: str) -> bool:
    """Whether two texts of a config have the same value, such as 1e-3 and 0.001."""
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def _rank(name: str, run: RunSummary, config: Mapping[str, str]) -> tuple[Any, ...]:
    """The sort key of a column: runs without a value, then numbers, then texts; the best value of a metric last."""
    import math

    from trainer.tui.charts import better

    plain = {"name": run.name, "task": run.task, "status": run.status, "started": run.started, "took": run.seconds,
             "step": run.step}  # fmt: skip
    value: Any = plain.get(name, config.get(name))
    if name == "best":
        value = None if run.best is None else run.best.value * (-1 if run.mode == "min" else 1)
    elif name in run.metrics:
        is_less_better = run.mode == "min" if name == run.leading else better(name) == "min"
        value = -run.metrics[name] if is_less_better else run.metrics[name]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return (0,)
    try:
        return 1, float(value)
    except ValueError:
        return 2, str(value)


def _refuse_unknown(
    runs: Sequence[RunSummary], configs: Sequence[Mapping[str, str]], arguments: argparse.Namespace
) -> None:
    """Raises TrainerError for a metric or a config key that none of the runs has."""
    from trainer import TrainerError
    from trainer.configs.problems import did_you_mean

    metrics = {name for run in runs for name in run.metrics}
    keys = {key for config in configs for key in config}
    asked = [("metric", metrics, name) for name in arguments.metric or ()]
    asked += [("config key", keys, key) for key in arguments.key or ()]
    for pair in arguments.where or ():
        key, separator, _ = pair.partition("=")
        if not separator:
            raise TrainerError("--where takes a config key and a value", found=pair, expected="KEY=VALUE")
        asked.append(("config key", keys, key))
    if arguments.sort:
        asked.append(("metric, config key or column", metrics | keys | {*PLAIN_KEYS}, arguments.sort))
    for kind, known, name in asked:
        if name not in known:
            raise TrainerError(f"no run has the {kind} {name}{did_you_mean(name, sorted(known))}")


def _plain(run: RunSummary, config: Mapping[str, str]) -> dict[str, object]:
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
        "monitored": run.leading,
        "best": None if run.best is None else {"value": run.best.value, "step": run.best.step},
        "metrics": dict(run.metrics),
        "config": dict(config),
        "tags": list(run.tags),
        "note": run.note,
    }
