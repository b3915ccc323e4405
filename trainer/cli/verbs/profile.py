"""`trainer profile`: measures where the time of a training step goes. Creates no run and writes files only on
request.
"""

from __future__ import annotations

import argparse

from trainer.cli.rehearsal import HINT, WIDTH, add_words, learner_for_steps

__all__ = ["EXAMPLES", "HINT", "describe", "execute"]

EXAMPLES = (
    """\
  trainer profile digits                                  the kernels that take the most time
  trainer """
    """profile config.yaml data.batch_size=8           with other values
  trainer profile digits --by module          """
    """            modules instead of kernels
  trainer profile digits --trace step.json                a timeline of """
    """every thread, for ui.perfetto.dev
  trainer profile digits --json > profile.json            measurements of """
    """every launch
"""
)


def describe(parser: argparse.ArgumentParser) -> None:
    add_words(parser)
    parser.add_argument("--steps", type=int, default=10, help="number of measured steps (default 10)")
    parser.add_argument("--warm-up", type=int, default=3, help="number of steps before the measurement (default 3)")
    parser.add_argument(
        "--by", choices=("kernel", "launch", "module"), default="kernel", help="what the rows of the table are"
    )
    parser.add_argument("--rows", type=int, default=30, help="number of rows of the table (default 30)")
    parser.add_argument("--trace", metavar="FILE", help="write a timeline of every thread as JSON")
    parser.add_argument(
        "--json", action="store_true", help="print measurements of every launch as JSON instead of a table"
    )


def execute(arguments: argparse.Namespace) -> int:
    import json
    import shutil
    import sys
    from pathlib import Path

    from trainer import TrainerError
    from trainer.rundir import write_error

    if arguments.steps < 1 or arguments.warm_up < 1 or arguments.rows < 1:
        raise TrainerError("--steps, --warm-up and --rows must be positive", expected="at least 1")
    learner = learner_for_steps(arguments.words, "profiling needs compiled programs")
    if arguments.trace and not Path(arguments.trace).absolute().parent.is_dir():
        raise TrainerError("the folder doesn't exist", where=arguments.trace, expected="a file in an existing folder")
    found = learner.profile(steps=arguments.steps, warm_up=arguments.warm_up)
    if arguments.trace:
        try:
            found.chrome_trace(arguments.trace)
        except OSError as error:
            raise write_error(Path(arguments.trace), error) from error
        print(f"{arguments.trace}: open it in ui.perfetto.dev or chrome://tracing", file=sys.stderr)
    if arguments.json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
        print(found.table(arguments.by, width=width, rows=arguments.rows))
    return 0
