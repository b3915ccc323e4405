"""Failures of training that are nobody's bug: they end the run with one message and exit code 1."""

from __future__ import annotations

from trainer import TrainerError


class TrainingFailure(TrainerError):
    """Training can't go on; checkpoints written before it are good."""


def not_finite(metric: str, step: int, learning_rates: dict[str, float], saved_step: int) -> TrainingFailure:
    """The failure for a metric that was NaN or infinite at `step`.

    `saved_step` is the last checkpoint's, below 0 before the first.
    """
    saved = f"The checkpoint of step {saved_step} is good." if saved_step >= 0 else "No checkpoint had been written."
    return TrainingFailure(
        f"train/{metric} is not finite at step {step}",
        found="NaN or infinity" + "".join(f", {name} {value:g}" for name, value in learning_rates.items()),
        expected="a finite number",
        hint="A lower learning rate, a warm-up or train.gradient_clip_norm often helps. " + saved,
    )
