"""`trainer doctor resume`: whether a config that is killed and resumed comes to the same bits."""

from __future__ import annotations

import argparse

from trainer.cli.rehearsal import HINT, add_words

__all__ = ["EXAMPLES", "HINT", "describe", "execute"]

EXAMPLES = """\
  trainer doctor resume digits                       20 steps at once, and 10, a kill, and 10 more
  trainer doctor resume config.yaml --steps 100
  trainer doctor resume config.yaml data.workers=2 --json
"""
_OVERRIDES = ("checkpoint.every_epochs=null", "checkpoint.every_minutes=null", "sinks=[]")


def describe(parser: argparse.ArgumentParser) -> None:
    add_words(parser)
    parser.add_argument("--steps", type=int, default=10, help="steps before and after the kill (default 10)")
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    import json
    import os
    import sys
    import tempfile
    from pathlib import Path

    from trainer import TrainerError
    from trainer.cli.exit_codes import DONE, FAILURE
    from trainer.cli.killed_run import KILL, run_killed
    from trainer.cli.order import Order
    from trainer.learner.checkpoints import first_difference, read_checkpoint

    if (steps := arguments.steps) < 1:
        raise TrainerError("--steps is a count", expected="at least 1")
    words = (*arguments.words, *_OVERRIDES, f"checkpoint.every_steps={steps}")
    with tempfile.TemporaryDirectory(prefix="trainer-doctor-") as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        parts = (
            (f"{2 * steps} steps at once", Order(words, os.getpid(), run_dir=str(whole)), 2 * steps),
            (f"{steps} steps and a kill", Order(words, os.getpid(), run_dir=str(killed)), steps),
            (f"{steps} steps more", Order((), os.getpid(), resume=str(killed)), 2 * steps),
        )
        for number, (what, order, step) in enumerate(parts, 1):
            print(f"part={number}/{len(parts)} now={json.dumps(what)}", file=sys.stderr, flush=True)
            code = run_killed(order, step)
            if code == DONE:
                raise TrainerError(
                    "training is over before the last step to compare", found=f"fewer than {step + 1} steps",
                    expected="a run that is longer", hint="Give a smaller --steps, or a larger train.epochs.",
                )  # fmt: skip
            if code != -KILL:
                print(f'error: nothing is compared, since "{what}" has failed', file=sys.stderr)
                return code if code > 0 else FAILURE
        found, before = None, False
        for step in (steps, 2 * steps):
            one, other = (read_checkpoint(run / "checkpoints" / f"step-{step}") for run in (whole, killed))
            if (found := first_difference(one, other)) is not None:
                before = step == steps
                break
    count = sum(map(len, one.arrays.values()))
    if arguments.json:
        difference = None if found is None else {"where": found[0], "what": found[1], "before_the_kill": before}
        print(json.dumps({"equal": found is None, "steps": 2 * steps, "arrays": count, "first_difference": difference}))
    elif found is None:
        print(
            f"equal: {count} arrays and the state have the same bits after {2 * steps} steps, killed at {steps} or not"
        )
    elif before:
        print(f"DIFFERENT after {steps} steps already, before the kill: {found[0]}: {found[1]}")
        print(
            "No two runs of this config are the same. Look for what is random without the config's seed (random, "
            "numpy.random), for clocks, and for what depends on the order in which threads come."
        )
    else:
        print(f"DIFFERENT after {2 * steps} steps, at once and with a kill at {steps}: {found[0]}: {found[1]}")
        print(
            "Two runs are the same up to the kill. Look for what is counted or kept in attributes of Python, "
            "which a new process has not: an engine.State of the task is in its checkpoints."
        )
    return DONE if found is None else FAILURE
