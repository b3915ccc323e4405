"""`trainer tune`: decide the kernels of a config's steps now, for every later run. Makes no run directory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.rundir import TuneEvent

EXAMPLES = """\
  trainer tune digits                            decide all kernels; later runs read the decisions
  trainer tune config.yaml data.batch_size=8     with other values: kernels are decided for exact shapes
  trainer tune digits --json > decisions.json    what was decided, and how much it gained
  trainer doctor cache                           what is kept, and where
"""
HINT = "Values are set as key=value, for instance data.batch_size=8. "
WIDTH = 80


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG_OR_RECIPE | key=value",
        help="a YAML file or a recipe's name, then values to set (a.b=c, a[0].b=c; parsed as YAML)",
    )
    parser.add_argument("--json", action="store_true", help="print the decisions as JSON, and no table")


def execute(arguments: argparse.Namespace) -> int:
    import dataclasses
    import json
    import os
    import sys
    import time

    from trainer import TrainerError, configs
    from trainer.cli.exit_codes import DONE, INTERRUPTED
    from trainer.cli.plain import PlainLines
    from trainer.cli.prepare import split_words
    from trainer.rundir import Event, Record, TuneEvent, process_age

    target, overrides = split_words(arguments.words, resuming=False)
    assert target is not None
    loaded = configs.load(target, overrides)
    if loaded.config.device != "cpu":
        raise TrainerError("only compiled kernels are tuned", found=f"device: {loaded.config.device}",
                           expected="device: cpu", hint="Add device=cpu.")  # fmt: skip
    begun, plain = time.time() - process_age(os.getpid()), PlainLines()
    decisions: list[TuneEvent] = []

    def show(event: Event) -> None:
        if isinstance(event, TuneEvent):
            decisions.append(event)
            return
        now = time.time()
        for line in plain.lines(Record(event, now, now - begun, 1)):
            print(line, file=sys.stderr, flush=True)

    from trainer.cli.tasks import task_class

    task = task_class(loaded.task)
    from trainer.learner import Learner

    interrupted = False
    try:
        Learner(task, loaded.config, loaded.options, sink=show).tune()
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: what is decided is kept, and the same command goes on from there", file=sys.stderr)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(event) for event in decisions], indent=1))
    else:
        print("\n".join(summary(decisions)))
    return INTERRUPTED if interrupted else DONE


def summary(decisions: list[TuneEvent]) -> list[str]:
    """The decisions as a table, those that gained most first, and a line that says what they come to."""
    measured = [event for event in decisions if event.source == "measured"]
    known = len(decisions) - len(measured)
    rows = [
        (event.default_ms, event.best_ms, f"{event.operation} {event.shape}")
        for event in measured
        if event.default_ms is not None and event.best_ms is not None and event.best_ms < event.default_ms
    ]
    lines = []
    if rows:
        lines.append(f"{'default ms':>11} {'best ms':>9} {'gain':>6}  kernel")
        for default, best, name in sorted(rows, key=lambda row: row[1] - row[0]):
            room = WIDTH - 31
            shown = name if len(name) <= room else name[: room - 1] + "…"
            lines.append(f"{default:11.3f} {best:9.3f} {1 - best / default:6.0%}  {shown}")
    gained = sum(default - best for default, best, _ in rows)
    lines.append(
        f"{len(measured)} kernels decided, {len(rows)} of them better than the default by {gained:.2f} ms a step"
    )
    if known:
        lines.append(f"{known} kernels were decided earlier")
    return lines
