"""`trainer run`: check the config, make the run directory, start the worker, and show what it does."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer run digits                                a recipe, on the dashboard
  trainer run config.yaml train.epochs=3 seed=1     a file, with other values
  trainer run digits --plain | tee log.txt          lines of key=value
  trainer run digits --json > events.jsonl          the events themselves
  trainer run config.yaml --dry-run                 a few steps of everything: what the run will take; leaves no files
  trainer run digits --detach                       start and return; then: trainer watch
  trainer run --resume digits-2 train.epochs=40     go on from the latest checkpoint
  trainer run --resume digits-2/checkpoints/step-250
  trainer run config.yaml --name night --resume auto    go on with runs/night, or start it
  trainer run --resume digits-2 optimizer.learning_rate=0.01 --force
  trainer run config.yaml --in-process              no worker process, for a debugger
"""
_OF_RUNS = ("detach", "in_process", "name", "run_dir", "resume")
"""Options that say something of a run directory or of the worker."""
HINT = "Values are set as key=value, for instance train.epochs=3. "


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG_OR_RECIPE | key=value",
        help="a YAML file or a recipe's name, then values to set (a.b=c, a[0].b=c; parsed as YAML)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--plain", action="store_true", help="lines of key=value (the default without a terminal)")
    form.add_argument("--json", action="store_true", help="the events themselves, one JSON object a line")
    form.add_argument("--detach", action="store_true", help="start the run and return at once")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="run some steps, a validation and a checkpoint, say what the run will take, and leave no files",
    )
    parser.add_argument(
        "--pictures", choices=("half", "kitty", "sixel"),
        help="samples in half-blocks (the default), or in pixels on terminals that can (default: TRAINER_PICTURES)",
    )  # fmt: skip
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal, which selects text")
    parser.add_argument("--in-process", action="store_true", help="train in this process, for a debugger")
    parser.add_argument("--name", help="the run's name: its directory is runs/NAME")
    parser.add_argument("--run-dir", metavar="DIR", help="the run's directory; must be new or empty")
    parser.add_argument(
        "--resume",
        metavar="RUN",
        help="go on with a run, from its latest checkpoint or RUN/checkpoints/step-N; "
        "auto: with the run of the config's name (--name, --run-dir), which is started if there is none",
    )
    parser.add_argument(
        "--force", action="store_true", help="with --resume: also with values that change what the saved state means"
    )


def execute(arguments: argparse.Namespace) -> int:
    import os
    import sys

    from trainer import TrainerError
    from trainer.cli import launch
    from trainer.cli.forms import Form, on_terminal
    from trainer.cli.order import Order

    if arguments.force and arguments.resume is None:
        raise TrainerError("--force goes with --resume")
    if arguments.dry_run and (
        found := [f"--{name.replace('_', '-')}" for name in _OF_RUNS if getattr(arguments, name)]
    ):
        raise TrainerError("--dry-run makes no run", found=" ".join(found), expected="a config, key=value and --json")
    order = Order(
        tuple(arguments.words),
        os.getpid(),
        command=("trainer", *sys.argv[1:]),
        name=arguments.name,
        run_dir=arguments.run_dir,
        resume=arguments.resume,
        debug=arguments.debug,
        force=arguments.force,
    )
    if arguments.dry_run:
        from trainer.cli.dry_run import run_dry

        return run_dry(order, as_json=arguments.json)
    form = Form.JSON if arguments.json else Form.PLAIN
    if arguments.in_process:
        return launch.train_here(order, form)
    if arguments.detach:
        return launch.detach(order)
    if on_terminal(arguments):
        return launch.train_on_dashboard(order, has_mouse=not arguments.no_mouse, pictures=arguments.pictures)
    return launch.train_attached(order, form)
