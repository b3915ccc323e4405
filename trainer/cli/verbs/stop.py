"""`trainer stop`: asks a run to finish its step, write a checkpoint and stop."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer stop                    the latest run
  trainer stop digits-2           by name
  trainer stop runs/digits --abort
"""

SECONDS_BETWEEN_LOOKS = 0.1


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="a run directory, or the name of a run in runs/ (default: the latest)"
    )
    parser.add_argument("--abort", action="store_true", help="end immediately, without a checkpoint")
    parser.add_argument("--no-wait", action="store_true", help="return without waiting for the end")


def execute(arguments: argparse.Namespace) -> int:
    import time

    from trainer import TrainerError
    from trainer.cli.find import find_run
    from trainer.rundir import ALIVE, open_run, send_request

    run = open_run(find_run(arguments.run).root)
    if run.status not in ALIVE:
        from trainer.cli.remote.record import how_to_continue

        raise TrainerError(
            "this run is not running", where=str(run.paths.root), found=run.status, hint=how_to_continue(run.paths)
        )
    send_request(run.paths, "abort" if arguments.abort else "stop")
    print(f"asked {run.paths.root} to {'abort' if arguments.abort else 'stop'}", flush=True)
    while not arguments.no_wait and run.status in ALIVE:
        time.sleep(SECONDS_BETWEEN_LOOKS)
        run.refresh()
    if not arguments.no_wait:
        print(f"{run.status} at step {run.end.step}" if run.end and run.end.step is not None else run.status)
    return 0
