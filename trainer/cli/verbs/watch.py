"""`trainer watch`: shows a run on the dashboard or as text; closing it doesn't affect the run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.rundir.sweeps import SweepPaths

EXAMPLES = (
    """\
  trainer watch                   the latest run
  trainer watch digits-2          by name
  trainer watch sweeps/digits     the trials of a sweep
  trainer watch """
    """digits digits-2   both runs, with overlaid curves; [ and ] switch the run
  trainer watch runs/digits --plain
  """
    """trainer watch digits --read-only     without the keys that stop, pause or save
  trainer watch digits --web     """
    """      in a browser on this machine; --control allows stop, pause and save
  trainer watch runs/digits --json | """
    """grep '"kind":"metric"'
"""
)

SERVED_GB = 1.0
"""Maximum memory of a served dashboard; one of the largest size takes 0.1 GB."""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="*", metavar="RUN",
        help="a run directory, the name of a run in runs/, or the folder of a sweep (default: the latest run); "
        "several: overlaid, one tab each",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--plain", action="store_true", help="print lines of key=value (the default without a terminal)")
    form.add_argument("--json", action="store_true", help="print events, one JSON object per line")
    form.add_argument(
        "--web", action="store_true", help="show the dashboard in a browser on this machine, protected by a token"
    )
    parser.add_argument("--port", type=int, metavar="N", help="with --web: port (default: a free one)")
    parser.add_argument("--control", action="store_true", help="with --web: allow the browser to stop, pause and save")
    parser.add_argument(
        "--parent", type=int, help=argparse.SUPPRESS
    )  # for a served dashboard, which ends with its parent process
    parser.add_argument(
        "--pictures", choices=("half", "kitty", "sixel"),
        help="how samples are drawn: half-blocks (the default), or pixels on terminals that support it (default: "
        "TRAINER_PICTURES)",
    )  # fmt: skip
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal, for selecting text")
    parser.add_argument("--read-only", action="store_true", help="show the run without the keys that control it")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.find import find_run, find_sweep
    from trainer.cli.follow import follow
    from trainer.cli.forms import Form, on_terminal
    from trainer.rundir import latest_run

    if not arguments.web and (arguments.port is not None or arguments.control):
        from trainer import TrainerError

        raise TrainerError("--port and --control need --web")
    if arguments.parent is not None:
        import signal

        from trainer.cli.watcher import die_with_parent, limit_memory

        die_with_parent(arguments.parent, signal.SIGKILL)  # a dashboard has nothing to finish, and may be busy
        limit_memory(SERVED_GB)
    sweep = find_sweep(arguments.runs[0]) if len(arguments.runs) == 1 else None
    if sweep is not None and not arguments.web and not on_terminal(arguments):
        return _print_sweep(sweep, as_json=arguments.json)
    started_last = None if sweep is None else latest_run(sweep.root)
    paths, *others = [started_last or find_run(word) for word in arguments.runs or (None,)]
    if arguments.web:
        return _serve([paths.root, *(other.root for other in others)], arguments)
    if others and not on_terminal(arguments):
        from trainer import TrainerError

        raise TrainerError(
            "only the dashboard can show several runs",
            found=", ".join(arguments.runs),
            expected="one run if there is no terminal, or with --plain or --json",
            hint="`trainer compare` compares several runs as text.",
        )
    if on_terminal(arguments):
        from trainer.cli.exit_codes import EXIT_CODES_OF_DASHBOARD
        from trainer.tui import watch

        result = watch(
            paths.root,
            *(other.root for other in others),
            is_read_only=arguments.read_only,
            has_mouse=not arguments.no_mouse,
            pictures=arguments.pictures,
            begins_with_sweep=sweep is not None,
        )
        return EXIT_CODES_OF_DASHBOARD[result.action]
    from trainer.rundir import ALIVE, Liveness, last_records

    run = Liveness(paths)
    for record in last_records(paths.events):
        run.see(record)

    def over() -> bool:
        return run.status not in ALIVE

    follow(paths, Form.JSON if arguments.json else Form.PLAIN, over=over, see=run.see)
    if run.status == "lost":
        from trainer import TrainerError
        from trainer.cli.remote.record import how_to_continue

        raise TrainerError(
            "the run's process is gone without an end event", where=str(paths.root),
            hint=how_to_continue(paths) or f"See {paths.log}.",
        )  # fmt: skip
    return 0


def _print_sweep(sweep: SweepPaths, *, as_json: bool) -> int:
    """Prints the trials of a sweep: the best ones as a table, or all as JSON."""
    from trainer.cli.verbs.sweep import results
    from trainer.rundir.sweeps import read_state

    state = read_state(sweep)
    print(sweep.state.read_text(encoding="utf-8").rstrip() if as_json else results(state))
    return 0


def _serve(runs: list[Path], arguments: argparse.Namespace) -> int:
    """Serves the dashboard until interrupted."""
    try:
        from trainer.cli.web import serve
    except ImportError as error:
        from trainer import TrainerError

        raise TrainerError(
            "the dashboard in a browser needs textual-serve", found=str(error), hint="pip install 'lucid-trainer[web]'"
        ) from error

    def say(address: str) -> None:
        print(f"{address}\nCtrl-C ends the dashboard; the run continues.", flush=True)

    serve(runs, arguments.port, can_control=arguments.control and not arguments.read_only, say=say)
    return 0
