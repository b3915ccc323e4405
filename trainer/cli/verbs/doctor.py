"""`trainer doctor`: what this installation is, and what is wrong with it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.cli.examination import Findings

EXAMPLES = """\
  trainer doctor
  trainer doctor --json
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the same as one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.examination import examine

    findings = examine()
    if arguments.json:
        import json

        print(json.dumps({"facts": findings.facts, "problems": findings.problems}, indent=1))
    else:
        import shutil
        import sys

        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(report_lines(findings, columns)))
    return 1 if findings.problems else 0


def report_lines(findings: Findings, columns: int | None) -> list[str]:
    """The facts in two columns, then the problems; what is longer than the screen goes on below, set in."""
    import textwrap

    width = max(map(len, findings.facts), default=0)
    rows = [(f"{name:{width}}  ", value) for name, value in findings.facts.items()]
    rows += [("problem: ", problem) for problem in findings.problems] or [("", "no problems found")]
    lines = []
    for label, text in rows:
        room = len(label + text) if columns is None else max(columns, len(label) + 20)
        indent = " " * len(label)
        lines += textwrap.wrap(
            text, room, initial_indent=label, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return lines
