"""`trainer runs rm`: deletes runs that have ended, with everything in their directories."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer runs rm digits-2                asks for confirmation
  trainer runs rm digits-2 digits-3 --yes
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directories, or names of runs in runs/")
    parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.find import find_run
    from trainer.cli.removal import bytes_below, delete_runs, is_confirmed, refuse_alive
    from trainer.cli.summaries import summaries

    runs = list({paths.root.resolve(): paths for paths in map(find_run, arguments.runs)}.values())
    refuse_alive(summaries(runs))
    size = sum(bytes_below(paths.root) for paths in runs) / 1e6
    named = ", ".join(str(paths.root) for paths in runs)
    if not is_confirmed(f"Delete {named} ({size:.1f} MB)?", is_given=arguments.yes):
        print("nothing was deleted")
        return 0
    delete_runs(runs)
    print(f"deleted {named} ({size:.1f} MB)")
    return 0
