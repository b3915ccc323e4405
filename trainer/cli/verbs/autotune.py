"""`trainer autotune`: decide the kernels of a config's steps now, for every later run. Makes no run directory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from trainer.cli.rehearsal import HINT, WIDTH, add_words, learner_for_steps

if TYPE_CHECKING:
    from trainer.rundir import AutotuneEvent

__all__ = ["EXAMPLES", "HINT", "describe", "execute", "summary"]

EXAMPLES = """\
  trainer autotune digits                            decide all kernels; later runs read the decisions
  trainer autotune config.yaml data.batch_size=8     with other values: kernels are decided for exact shapes
  trainer autotune digits --json > decisions.json    what was decided, and how much it gained
  trainer doctor cache                               what is kept, and where
"""


def describe(parser: argparse.ArgumentParser) -> None:
    add_words(parser)
    parser.add_argument("--json", action="store_true", help="print the decisions as JSON, and no table")


def execute(arguments: argparse.Namespace) -> int:
    import dataclasses
    import json
    import sys

    from trainer.cli.exit_codes import DONE, INTERRUPTED
    from trainer.rundir import AutotuneEvent, Event

    decisions: list[AutotuneEvent] = []

    def taken(event: Event) -> bool:
        if isinstance(event, AutotuneEvent):
            decisions.append(event)
        return isinstance(event, AutotuneEvent)

    learner = learner_for_steps(arguments.words, "only compiled kernels are tuned", taken)
    interrupted = False
    try:
        learner.autotune()
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: what is decided is kept, and the same command goes on from there", file=sys.stderr)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(event) for event in decisions], indent=1))
    else:
        print("\n".join(summary(decisions)))
    return INTERRUPTED if interrupted else DONE


def summary(decisions: list[AutotuneEvent]) -> list[str]:
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
