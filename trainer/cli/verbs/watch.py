"""`trainer watch`: a run on the dashboard, or in lines; leaving changes nothing about the run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = """\
  trainer watch                   the latest run
  trainer watch digits-2          by name
  trainer watch digits digits-2   both at once: their curves over each other; [ and ] change the run that is shown
  trainer watch runs/digits --plain
  trainer watch digits --read-only     without the keys that stop, pause, save
  trainer watch digits --web           in a browser on this machine; --control lets it stop, pause, save
  trainer watch runs/digits --json | grep '"kind":"metric"'
"""

SERVED_GB = 1.0
"""Memory of a dashboard that is served: one of the largest size takes 0.1 GB."""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="*", metavar="RUN",
        help="a run directory, or its name below runs/ (default: the latest); several: over each other, a tab each",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--plain", action="store_true", help="lines of key=value (the default without a terminal)")
    form.add_argument("--json", action="store_true", help="the events themselves, one JSON object a line")
    form.add_argument("--web", action="store_true", help="in a browser, on this machine alone, behind a token")
    parser.add_argument("--port", type=int, metavar="N", help="with --web: the port (default: a free one)")
    parser.add_argument("--control", action="store_true", help="with --web: let the browser stop, pause and save")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)  # of a dashboard that is served: it ends with it
    parser.add_argument(
        "--pictures", choices=("half", "kitty", "sixel"),
        help="samples in half-blocks (the default), or in pixels on terminals that can (default: TRAINER_PICTURES)",
    )  # fmt: skip
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal, which selects text")
    parser.add_argument("--read-only", action="store_true", help="look, but send the run no requests")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.find import find_run
    from trainer.cli.follow import follow
    from trainer.cli.forms import Form, on_terminal

    if not arguments.web and (arguments.port is not None or arguments.control):
        from trainer import TrainerError

        raise TrainerError("--port and --control go with --web")
    if arguments.parent is not None:
        import signal

        from trainer.cli.watcher import die_with_parent, limit_memory

        die_with_parent(arguments.parent, signal.SIGKILL)  # a dashboard has nothing to finish, and may be busy
        limit_memory(SERVED_GB)
    paths, *others = [find_run(word) for word in arguments.runs or (None,)]
    if arguments.web:
        return _serve([paths.root, *(other.root for other in others)], arguments)
    if others and not on_terminal(arguments):
        from trainer import TrainerError

        raise TrainerError(
            "several runs are watched on the dashboard alone",
            found=", ".join(arguments.runs),
            expected="one run, without a terminal or with --plain or --json",
            hint="`trainer compare` prints several runs side by side.",
        )
    if on_terminal(arguments):
        from trainer.cli.exit_codes import BY_WAY_OF_LEAVING
        from trainer.tui import watch

        result = watch(
            paths.root,
            *(other.root for other in others),
            is_read_only=arguments.read_only,
            has_mouse=not arguments.no_mouse,
            pictures=arguments.pictures,
        )
        return BY_WAY_OF_LEAVING[result.action]
    from trainer.rundir import ALIVE, Liveness, last_records

    run = Liveness(paths)
    for record in last_records(paths.events):
        run.see(record)

    def over() -> bool:
        return run.status not in ALIVE

    follow(paths, Form.JSON if arguments.json else Form.PLAIN, over=over, see=run.see)
    if run.status == "lost":
        from trainer import TrainerError

        raise TrainerError("the run's process is gone without an end", where=str(paths.root), hint=f"See {paths.log}.")
    return 0


def _serve(runs: list[Path], arguments: argparse.Namespace) -> int:
    """Serve the dashboard until interrupted."""
    try:
        from trainer.cli.web import serve
    except ImportError as error:
        from trainer import TrainerError

        raise TrainerError(
            "the dashboard in a browser needs textual-serve", found=str(error), hint="pip install 'lucid-trainer[web]'"
        ) from error

    def say(address: str) -> None:
        print(f"{address}\nCtrl-C ends it; the run goes on.", flush=True)

    serve(runs, arguments.port, can_control=arguments.control and not arguments.read_only, say=say)
    return 0
