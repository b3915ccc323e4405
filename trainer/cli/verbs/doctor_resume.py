"""`trainer doctor resume`: checks that a killed and resumed run gives the same results, bit for bit."""

from __future__ import annotations

import argparse

from trainer.cli.rehearsal import HINT, add_words

__all__ = ["EXAMPLES", "HINT", "describe", "execute"]

EXAMPLES = (
    """\
  trainer doctor resume digits                       20 steps without interruption; 10 steps, a kill, 10 more
 """
    """ trainer doctor resume config.yaml --steps 100
  trainer doctor resume config.yaml data.workers=2 --json
"""
)
_OVERRIDES = ("checkpoint.every_epochs=null", "checkpoint.every_minutes=null", "sinks=[]")


def describe(parser: argparse.ArgumentParser) -> None:
    add_words(parser)
    parser.add_argument("--steps", type=int, default=10, help="steps before and after the kill (default 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


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
        raise TrainerError("--steps must be positive", expected="at least 1")
    words = (*arguments.words, *_OVERRIDES, f"checkpoint.every_steps={steps}")
    with tempfile.TemporaryDirectory(prefix="trainer-doctor-") as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        parts = (
            (f"{2 * steps} steps without interruption", Order(words, os.getpid(), run_dir=str(whole)), 2 * steps),
            (f"{steps} steps and a kill", Order(words, os.getpid(), run_dir=str(killed)), steps),
            (f"{steps} steps after resuming", Order((), os.getpid(), resume=str(killed)), 2 * steps),
        )
        for number, (what, order, step) in enumerate(parts, 1):
            print(f"part={number}/{len(parts)} now={json.dumps(what)}", file=sys.stderr, flush=True)
            code = run_killed(order, step)
            if code == DONE:
                raise TrainerError(
                    "training ends before the last step to compare", found=f"fewer than {step + 1} steps",
                    expected="a longer run", hint="Give a smaller --steps, or a larger train.epochs.",
                )  # fmt: skip
            if code != -KILL:
                print(f'error: no comparison, because "{what}" failed', file=sys.stderr)
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
            f"equal: {count} arrays and the state are the same, bit for bit, after {2 * steps} steps with and "
            f"without a kill at {steps}"
        )
    elif before:
        print(f"DIFFERENT after {steps} steps, before the kill: {found[0]}: {found[1]}")
        print(
            "Two runs of this config differ. Look for random numbers without the config's seed (random, "
            "numpy.random), for clocks, and for results that depend on the order of threads."
        )
    else:
        print(f"DIFFERENT after {2 * steps} steps, with and without a kill at {steps}: {found[0]}: {found[1]}")
        print(
            "Two runs are the same up to the kill. Look for state in Python attributes, which a new process doesn't "
            "have; an engine.State of the task is saved in checkpoints."
        )
    return DONE if found is None else FAILURE
