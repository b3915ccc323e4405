"""`trainer autotune`: chooses the kernels of a config's steps now, for all later runs. Creates no run directory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from trainer.cli.rehearsal import HINT, WIDTH, add_words, learner_for_steps

if TYPE_CHECKING:
    from trainer.rundir import AutotuneEvent

__all__ = ["EXAMPLES", "HINT", "describe", "execute", "summary"]

EXAMPLES = (
    """\
  trainer autotune digits                            choose all kernels; later runs reuse the decisions
  """
    """trainer autotune config.yaml data.batch_size=8     with other values: kernels are chosen for exact shapes
  """
    """trainer autotune digits --json > decisions.json    the decisions, and the time that each saves
  trainer doctor """
    """cache                               the stored decisions, and where they are
"""
)


def describe(parser: argparse.ArgumentParser) -> None:
    add_words(parser)
    parser.add_argument("--json", action="store_true", help="print the decisions as JSON instead of a table")


def execute(arguments: argparse.Namespace) -> int:
    import json
    import sys

    from trainer.cli.exit_codes import DONE, INTERRUPTED
    from trainer.rundir import AutotuneEvent, Event

    decisions: list[AutotuneEvent] = []

    def taken(event: Event) -> bool:
        if isinstance(event, AutotuneEvent):
            decisions.append(event)
        return isinstance(event, AutotuneEvent)

    learner = learner_for_steps(arguments.words, "autotuning needs compiled kernels", taken)
    interrupted = False
    try:
        learner.autotune()
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: decisions so far are stored, and the same command continues from there", file=sys.stderr)
    if arguments.json:
        print(json.dumps([event.to_dict() for event in decisions], indent=1))
    else:
        print("\n".join(summary(decisions)))
    return INTERRUPTED if interrupted else DONE


def summary(decisions: list[AutotuneEvent]) -> list[str]:
    """The decisions as a table, the largest gains first, and a line with their sum."""
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
        f"{len(measured)} kernels chosen, {len(rows)} of them faster than the default by {gained:.2f} ms per step"
    )
    if known:
        lines.append(f"{known} kernels had been chosen earlier")
    return lines
