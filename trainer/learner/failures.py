"""Failures of training that are nobody's bug: they end the run with one message and exit code 1."""

from __future__ import annotations

from trainer import TrainerError


class TrainingFailure(TrainerError):
    """Training can't go on; the last checkpoint is good."""


def not_finite(metric: str, step: int, learning_rates: dict[str, float]) -> TrainingFailure:
    """The failure for a metric that was NaN or infinite at `step`."""
    return TrainingFailure(
        f"train/{metric} is not finite at step {step}",
        found="NaN or infinity" + "".join(f", {name} {value:g}" for name, value in learning_rates.items()),
        expected="a finite number",
        hint="A lower learning rate, a warm-up or train.gradient_clip_norm often helps. The last checkpoint is good.",
    )
