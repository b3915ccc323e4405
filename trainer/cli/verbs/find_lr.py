"""`trainer find-lr`: runs a learning-rate range test on the real task; shows its curve and a suggestion."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainer.cli.rehearsal import HINT as HINT
from trainer.cli.rehearsal import WIDTH, add_words

if TYPE_CHECKING:
    from trainer.learner.rate_trials import FoundRate

EXAMPLES = """\
  trainer find-lr digits                             curve, suggestion, and find-lr.png
  trainer find-lr config.yaml data.batch_size=256    for another batch size
  trainer find-lr config.yaml --from 1e-6 --to 1 --steps 200
  trainer find-lr config.yaml --trial-steps 0        the curve alone, without short trainings
  trainer find-lr lsgan --metric discriminator_loss  a task with several losses
  trainer find-lr digits --json > curve.json         all numbers; no picture
"""
HEIGHT = 16
ROOM = 0.25
"""Space above the maximum loss before the minimum, as a fraction of the difference between both."""


def describe(parser: argparse.ArgumentParser) -> None:
    add_words(parser)
    parser.add_argument(
        "--from", dest="start", type=float, default=1e-7, metavar="RATE", help="first learning rate (default: 1e-7)"
    )
    parser.add_argument(
        "--to", dest="stop", type=float, default=10.0, metavar="RATE",
        help="last learning rate, unless the loss diverges earlier (default: 10)",
    )  # fmt: skip
    parser.add_argument(
        "--steps", type=int, default=100, metavar="N", help="optimizer steps of the range test (default: 100)"
    )
    parser.add_argument(
        "--trial-steps", type=int, default=100, metavar="N",
        help="optimizer steps of each of the three to six short trainings that choose the suggestion, at most those of "
        "the run; 0: none, and the suggestion is a third of the rate with the lowest loss (default: 100)",
    )  # fmt: skip
    parser.add_argument(
        "--metric", default="loss", metavar="NAME", help="training metric that is the loss (default: loss)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="file of the curve as PNG (default: find-lr.png; none with --json)"
    )
    parser.add_argument("--json", action="store_true", help="print the curve and the suggestion as JSON")


def execute(arguments: argparse.Namespace) -> int:
    import dataclasses
    import json
    from pathlib import Path

    from trainer import TrainerError
    from trainer.cli.progress_line import ProgressLine
    from trainer.cli.rehearsal import learner_for_steps

    if not 0 < arguments.start < arguments.stop:
        raise TrainerError(
            "invalid range of learning rates", found=f"from {arguments.start:g} to {arguments.stop:g}",
            expected="0 < --from < --to",
        )  # fmt: skip
    if arguments.steps < 20:
        raise TrainerError("too few steps for a curve", found=str(arguments.steps), expected="--steps of at least 20")
    if arguments.trial_steps and arguments.trial_steps < 20:
        raise TrainerError(
            "too few steps for a training", found=str(arguments.trial_steps),
            expected="--trial-steps of at least 20, or 0 for none",
        )  # fmt: skip
    from trainer.learner.range_test import for_range_test, geometric

    line = ProgressLine()
    learner = learner_for_steps(arguments.words, None, lambda event: True, adapt=for_range_test)
    found = learner.find_rate(
        geometric(arguments.start, arguments.stop, arguments.steps), trial_steps=arguments.trial_steps,
        metric=arguments.metric,
        progress=lambda what, done, total, rate: line.note(f"{what}: {done}/{total}, learning rate {rate:.3g}"),
    )  # fmt: skip
    line.clear()
    curve = found.curve
    if arguments.json:
        trials = [
            {"learning_rate": one.learning_rate, "loss": one.loss if math.isfinite(one.loss) else None}
            for one in found.trials
        ]
        print(json.dumps(
            {**dataclasses.asdict(found), "trials": trials, "suggestions": found.suggestions}, indent=1
        ))  # fmt: skip
    else:
        print("\n".join(shown(found)))
    output = arguments.output or (None if arguments.json else "find-lr.png")
    if output is not None:
        from trainer.cli.curve_picture import save_curve

        save_curve(
            Path(output), curve.learning_rates, without_divergence(curve.smoothed), behind=curve.losses,
            mark=(found.suggestion, f"suggestion {found.suggestion:.2g}"), titles=("learning rate", arguments.metric),
        )  # fmt: skip
        if not arguments.json:
            print(f"curve       {output}")
    return 0


def without_divergence(losses: Sequence[float]) -> list[float]:
    """Clips the losses a little above their maximum before the minimum, so that the decrease stays visible."""
    before = losses[: losses.index(min(losses)) + 1]
    ceiling = max(before) + ROOM * (max(before) - min(before))
    return [min(loss, ceiling) for loss in losses]


def shown(found: FoundRate) -> list[str]:
    """The curve of the smoothed loss over the logarithm of the learning rate, the trials, and the suggestion."""
    from array import array

    from trainer.cli.curves import overlaid
    from trainer.rundir import Series

    curve = found.curve
    steps = array("d", range(len(curve.smoothed)))
    series = Series(steps, steps, array("d", without_divergence(curve.smoothed)), steps)
    ends = (f"{curve.learning_rates[0]:.1e}", f"learning rate {curve.learning_rates[-1]:.1e}")
    words = " ".join(f"{key}={rate:.2g}" for key, rate in found.suggestions.items())
    end = "the loss diverged after" if curve.is_diverged else "the test ended at"
    return [
        *overlaid({"•": series}, WIDTH, HEIGHT, ends=ends),
        f"lowest loss {curve.lowest:.2g}; {end} {curve.learning_rates[-1]:.2g}",
        *(f"training    {one.learning_rate:.2g}: {_loss(one.loss)}" for one in found.trials),
        f"suggestion  {words}",
    ]


def _loss(loss: float) -> str:
    return f"loss {loss:.4g}" if math.isfinite(loss) else "diverged"
