"""`trainer run`: checks the config, creates the run directory, starts the worker, and shows its progress."""

from __future__ import annotations

import argparse

EXAMPLES = (
    """\
  trainer run digits                                a recipe, with the dashboard
  trainer run config.yaml """
    """train.epochs=3 seed=1     a file, with two values changed
  trainer run digits --plain | tee log.txt          """
    """lines of key=value
  trainer run digits --json > events.jsonl          all events as JSON
  trainer run """
    """config.yaml --dry-run                 estimate time and memory from a few steps; leaves no files
  trainer run """
    """digits --detach                       run in the background; then: trainer watch
  trainer run --resume """
    """digits-2 train.epochs=40     resume from the latest checkpoint
  trainer run --resume """
    """digits-2/checkpoints/step-250
  trainer run config.yaml --name night --resume auto    resume runs/night, or """
    """start it
  trainer run --resume digits-2 optimizer.learning_rate=0.01 --force
  trainer run config.yaml """
    """--on ssh:gpu1             train on the host gpu1; the run directory is here
  trainer run config.yaml """
    """--on ssh:gpu1 --send ~/data/cells --python /opt/venv/bin/python
  trainer run config.yaml """
    """--on slurm:gpu threads=8  as a Slurm job; --on ray:auto: on a Ray cluster
  trainer run config.yaml """
    """--in-process              train in this process, for a debugger
"""
)
_OF_RUNS = ("detach", "in_process", "name", "run_dir", "resume", "on")
"""Options that concern a run directory or the worker."""
HINT = "Set values as key=value, for instance train.epochs=3. "


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG_OR_RECIPE | key=value",
        help="a YAML file or a recipe's name, then values to set (a.b=c, a[0].b=c; parsed as YAML)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--plain", action="store_true", help="print lines of key=value (the default without a terminal)")
    form.add_argument("--json", action="store_true", help="print events, one JSON object per line")
    form.add_argument("--detach", action="store_true", help="start the run in the background and return")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="run a few steps, a validation and a checkpoint, print the estimated time and memory, and leave no files",
    )
    parser.add_argument(
        "--pictures", choices=("half", "kitty", "sixel"),
        help="how samples are drawn: half-blocks (the default), or pixels on terminals that support it (default: "
        "TRAINER_PICTURES)",
    )  # fmt: skip
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal, for selecting text")
    parser.add_argument(
        "--on", metavar="PLACE",
        help="train on another machine, with the run directory here: ssh:HOST (as in ~/.ssh/config), slurm:PARTITION "
        "or ray:ADDRESS, which share this folder, or ssh:HOST,slurm:PARTITION",
    )  # fmt: skip
    parser.add_argument(
        "--send", action="append", metavar="PATH", default=[],
        help="with --on ssh:HOST: transfer this file or folder, and let the config's paths below it point to the copy; "
        "later runs transfer only what has changed; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--python", metavar="PATH",
        help="with --on ssh:HOST: the Python there that has trainer installed (default: python3)",
    )  # fmt: skip
    parser.add_argument("--in-process", action="store_true", help="train in this process, for a debugger")
    parser.add_argument("--name", help="name of the run: its directory is runs/NAME")
    parser.add_argument("--run-dir", metavar="DIR", help="directory of the run; new or empty")
    parser.add_argument(
        "--resume",
        metavar="RUN",
        help="resume a run from its latest checkpoint or from RUN/checkpoints/step-N; auto: resume the run with the "
        "config's name (or --name, --run-dir), or start it if it doesn't exist",
    )
    parser.add_argument(
        "--force", action="store_true", help="with --resume: accept changed values that contradict the saved state"
    )


def execute(arguments: argparse.Namespace) -> int:
    import os
    import sys

    from trainer import TrainerError
    from trainer.cli import launch
    from trainer.cli.forms import Form, on_terminal
    from trainer.cli.launchers import launched
    from trainer.cli.order import Order

    if arguments.force and arguments.resume is None:
        raise TrainerError("--force needs --resume")
    if arguments.dry_run and (
        found := [f"--{name.replace('_', '-')}" for name in _OF_RUNS if getattr(arguments, name)]
    ):
        raise TrainerError("--dry-run creates no run", found=" ".join(found), expected="a config, key=value and --json")
    if arguments.on == "local":
        arguments.on = None
    if arguments.on is None and (arguments.send or arguments.python):
        raise TrainerError("--send and --python need --on ssh:HOST")
    if arguments.on is not None and arguments.in_process:
        raise TrainerError("--in-process trains in this process", found=f"--on {arguments.on}", expected="one of both")
    order = Order(
        tuple(arguments.words),
        os.getpid(),
        command=("trainer", *sys.argv[1:]),
        name=arguments.name,
        run_dir=arguments.run_dir,
        resume=arguments.resume,
        debug=arguments.debug,
        force=arguments.force,
        on=arguments.on,
        python=arguments.python,
        sent=tuple(arguments.send),
    )
    if arguments.dry_run:
        from trainer.cli.dry_run import run_dry

        return run_dry(order, as_json=arguments.json)
    form = Form.JSON if arguments.json else Form.PLAIN
    count, launcher = launched()
    if count > 1 and order.on is not None:
        raise TrainerError("a launcher starts processes of one run here", found=f"{launcher} with --on {order.on}",
                           expected="train.processes in the config, for processes there")  # fmt: skip
    if count > 1:
        return launch.train_in_ranks(order, form, count, launcher)
    if arguments.in_process:
        return launch.train_here(order, form)
    if arguments.detach:
        return launch.detach(order)
    if on_terminal(arguments):
        return launch.train_on_dashboard(order, has_mouse=not arguments.no_mouse, pictures=arguments.pictures)
    return launch.train_attached(order, form)
