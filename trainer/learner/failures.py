"""Failures of training that are not bugs: they end the run with one message and exit code 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer import TrainerError

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.engine import MemoryReport

MOST_TOLD = 3
"""Number of the largest arrays that are listed when memory runs out."""


class TrainingFailure(TrainerError):
    """Training can't continue; earlier checkpoints are usable."""


def not_finite(metric: str, step: int, learning_rates: dict[str, float], saved_step: int) -> TrainingFailure:
    """The failure for a metric that was NaN or infinite at `step`.

    `saved_step` is the step of the last checkpoint, below 0 before the first one.
    """
    saved = f"The checkpoint of step {saved_step} is usable." if saved_step >= 0 else "No checkpoint had been written."
    return TrainingFailure(
        f"train/{metric} is not finite at step {step}",
        found="NaN or infinity" + "".join(f", {name} {value:g}" for name, value in learning_rates.items()),
        expected="a finite number",
        hint="A lower learning rate, a warm-up or train.gradient_clip_norm often helps. " + saved,
    )


def out_of_memory(
    step_name: str, report: MemoryReport | None, config: RunConfig, error: MemoryError | None = None
) -> TrainingFailure:
    """The failure for a step that exceeds the device's memory; `report` lists the step's memory, if known. Without it,
    `error` may describe the memory use.
    """
    train, found = config.train, error.found if isinstance(error, TrainerError) else None
    if report is not None:
        held = sorted(report.held, key=lambda each: -each.nbytes)[:MOST_TOLD]
        largest = "; ".join(f"{_size(each.nbytes)} {each.label}{_at(each.module)}" for each in held)
        found = (
            f"{_size(report.arena)} of intermediate results, {_size(report.states)} of weights and optimizer state; "
            f"largest arrays at the peak: {largest}"
        )
    ways = [f"Lower data.batch_size (now {config.data.items_per_batch})"]
    half = max(1, config.data.items_per_batch // 2)
    ways.append(f"or split each step into parts with data.batch_size={half} train.accumulate={2 * train.accumulate}")
    if train.precision == "float32":
        ways.append("or set train.precision=bfloat16")
    return TrainingFailure(f"out of memory in the {step_name}", found=found, hint=", ".join(ways) + ".")


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e9:.2f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.1f} MB"


def _at(module: str) -> str:
    return f" (in {module})" if module else ""
