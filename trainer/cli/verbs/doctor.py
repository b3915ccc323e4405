"""`trainer doctor`: what this installation is, and what is wrong with it."""

from __future__ import annotations

import argparse

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
        width = max(map(len, findings.facts))
        for name, value in findings.facts.items():
            print(f"{name:{width}}  {value}")
        for problem in findings.problems:
            print(f"problem: {problem}")
        if not findings.problems:
            print("no problems found")
    return 1 if findings.problems else 0
