"""`trainer watch`: a run on the dashboard, or in lines; leaving changes nothing about the run."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer watch                   the latest run
  trainer watch digits-2          by name
  trainer watch runs/digits --plain
  trainer watch runs/digits --json | grep '"kind":"metric"'
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="a run directory, or its name below runs/ (default: the latest)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--plain", action="store_true", help="lines of key=value (the default without a terminal)")
    form.add_argument("--json", action="store_true", help="the events themselves, one JSON object a line")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.find import find_run
    from trainer.cli.follow import follow
    from trainer.cli.forms import Form, on_terminal

    paths = find_run(arguments.run)
    if on_terminal(arguments):
        from trainer.cli.exit_codes import DONE, TERMINATED
        from trainer.tui import watch

        return TERMINATED if watch(paths.root).action in ("terminated", "hung_up") else DONE
    from trainer.rundir import open_run

    run = open_run(paths.root)

    def over() -> bool:
        run.refresh()
        return run.status not in ("running", "starting")

    follow(paths, Form.JSON if arguments.json else Form.PLAIN, over=over)
    if run.status == "lost":
        from trainer import TrainerError

        raise TrainerError("the run's process is gone without an end", where=str(paths.root), hint=f"See {paths.log}.")
    return 0
