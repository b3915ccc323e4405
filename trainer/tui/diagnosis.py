"""One sentence on the state of a run, and what to change: a pure function of the run's view and status."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from trainer.tui.charts import best_of, primary_metric
from trainer.tui.numbers import number
from trainer.tui.series import Series
from trainer.tui.status import FAILED, LOST, PAUSED, SILENT, Status
from trainer.tui.view import View

DATA_WAIT = 0.2
"""Minimum share of the time spent waiting for data that calls for a change."""

RECENT = 50
"""Values of a metric that count as recent."""

SPIKE = 10.0
"""A gradient norm this many times its recent median is a risk."""

RISE = 2.0
"""A training loss more than this many times its minimum is a risk."""

WORSE = 0.02
"""Relative rise of the validation loss above its best value that counts as overfitting."""

VALIDATIONS = 3
"""Minimum number of validations after the best one for a diagnosis."""

PATIENCE = 5
"""Validations without improvement that count as a plateau."""


class Diagnosis(NamedTuple):
    """A sentence, and the role of its color: good, warn, bad or text."""

    text: str
    role: str = "text"


def diagnose(view: View, status: Status) -> Diagnosis | None:
    """The most important finding; None while no rule applies."""
    for rule in RULES:
        found = rule(view, status)
        if found is not None:
            return found
    return None


def _worker(view: View, status: Status) -> Diagnosis | None:
    """The training process is gone or silent."""
    if status == LOST:
        text = f"The training process is gone; `trainer run --resume {view.name}` continues from the last checkpoint."
        return Diagnosis(text, "bad")
    if status == SILENT:
        return Diagnosis("No heartbeat: the training process hangs, or its machine is unreachable.", "bad")
    if status == FAILED:
        reason = view.end.reason if view.end is not None and view.end.reason else "the log has the traceback"
        return Diagnosis(f"Failed: {reason}", "bad")
    return None


def _not_finite(view: View, status: Status) -> Diagnosis | None:
    """The latest training loss is NaN or infinite."""
    for name, series in _losses(view):
        if len(series) and not math.isfinite(series.last):
            first = len(series) - 1
            while first and not math.isfinite(series.values[first - 1]):
                first -= 1
            text = f"train/{name} is not finite since step {series.steps[first]:g}"
            return Diagnosis(f"{text}: lower optimizer.learning_rate.", "bad")
    return None


def _over(view: View, status: Status) -> Diagnosis | None:
    """The run is over: its best result, and overfitting."""
    if not status.is_over:
        return None
    parts = []
    best = _best(view)
    if best is not None:
        name, step, value = best
        parts.append(f"Best valid/{name} {number(value)} {_at(view, step)}.")
    overfitting = _overfitting(view, status)
    parts += [overfitting.text] if overfitting is not None else []
    return Diagnosis(" ".join(parts), overfitting.role if overfitting else "good") if parts else None


def _paused(view: View, status: Status) -> Diagnosis | None:
    return Diagnosis("Training is paused; p resumes it.", "warn") if status == PAUSED else None


def _nan_risk(view: View, status: Status) -> Diagnosis | None:
    """The gradient norm jumps, or the training loss has left its minimum."""
    norm = view.series.get(("train", "gradient_norm"))
    if norm is not None and len(norm) > VALIDATIONS:
        recent = [value for value in norm.values[-RECENT - 1 : -1] if math.isfinite(value)]
        usual = median(recent) if recent else 0.0
        if not math.isfinite(norm.last) or (usual > 0 and norm.last > SPIKE * usual):
            text = f"NaN risk: gradient norm {number(norm.last)}, recent median {number(usual)}"
            return Diagnosis(f"{text}; set train.gradient_clip_norm.", "bad")
    for name, series in _losses(view):
        if len(series) >= RECENT and series.lowest > 0 and series.smoothed[-1] > RISE * series.lowest:
            text = f"NaN risk: train/{name} rose from {number(series.lowest)} to {number(series.smoothed[-1])}"
            return Diagnosis(f"{text}; lower optimizer.learning_rate.", "warn")
    return None


def _data(view: View, status: Status) -> Diagnosis | None:
    """The training step waits for data."""
    wait = view.system.data_wait if view.system is not None else None
    if wait is None or wait < DATA_WAIT or not status.is_moving:
        return None
    return Diagnosis(f"Waiting for data {wait:.0%} of the time: raise data.workers or use smaller images.", "warn")


def _overfitting(view: View, status: Status) -> Diagnosis | None:
    """The validation loss rises while the training loss falls."""
    valid, train = view.series.get(("valid", "loss")), view.series.get(("train", "loss"))
    best = None if valid is None else valid.best("min")
    if valid is None or train is None or best is None:
        return None
    step, value = best
    later = [other for at, other in zip(valid.steps, valid.values, strict=True) if at > step]
    limit = value + WORSE * abs(value)
    if len(later) < VALIDATIONS or any(not other > limit for other in later[-VALIDATIONS:]):
        return None
    if not _smoothed_at(train, valid.steps[-1]) < _smoothed_at(train, step):
        return None
    text = f"Overfitting since {_when(view, step)}: valid/loss rose from {number(value)} to {number(valid.last)}"
    return Diagnosis(f"{text} while train/loss fell.", "warn")


def _plateau(view: View, status: Status) -> Diagnosis | None:
    """The metric that chooses checkpoints no longer improves."""
    best = _best(view)
    if best is None:
        return None
    name, step, value = best
    later = sum(at > step for at in view.series["valid", name].steps)
    if later < PATIENCE:
        return None
    return Diagnosis(
        f"No improvement of valid/{name} for {later} validations: {number(value)} {_at(view, step)}.", "warn"
    )


def _progress(view: View, status: Status) -> Diagnosis | None:
    """The training loss, and the gradient norm."""
    for name, series in _losses(view):
        if len(series) >= 2:
            step, now = series.steps[-1], series.smoothed[-1]
            before_step = series.steps[max(0, bisect_right(series.steps, 0.8 * step) - 1)]
            before = _smoothed_at(series, before_step)
            verb = "falls" if now < before else "rises" if now > before else "stays"
            text = f"train/{name} {verb}: {number(before)} at step {before_step:g}, {number(now)} now."
            norm = view.series.get(("train", "gradient_norm"))
            text += f" Gradient norm {number(norm.last)}." if norm is not None and len(norm) else ""
            return Diagnosis(text, "good" if verb == "falls" else "text")
    return None


def _starting(view: View, status: Status) -> Diagnosis | None:
    """The phase in progress before the first step."""
    active = [phase for phase in view.phases.values() if phase.is_active]
    if not active or status.is_over:
        return None
    phase = max(active, key=lambda phase: phase.started)
    count = f" {phase.done:g} of {phase.total:g}" if phase.done is not None and phase.total else ""
    return Diagnosis(f"In progress: {phase.name}{count}.")


RULES: Sequence[Callable[[View, Status], Diagnosis | None]] = (
    _worker, _not_finite, _over, _paused, _nan_risk, _data, _overfitting, _plateau, _progress, _starting,
)  # fmt: skip
"""The rules, the most important first."""


def _losses(view: View) -> list[tuple[str, Series]]:
    """The training losses, the total one first."""
    found = [(name, series) for (split, name), series in view.series.items() if split == "train" and "loss" in name]
    return sorted(found, key=lambda item: item[0] != "loss")


def _best(view: View) -> tuple[str, float, float] | None:
    """The primary metric, its best step and value."""
    name = primary_metric(view)
    best = None if name is None else best_of(view, name)
    return None if name is None or best is None else (name, *best)


def _smoothed_at(series: Series, step: float) -> float:
    index = bisect_right(series.steps, step) - 1
    return series.smoothed[index] if index >= 0 else math.nan


def _when(view: View, step: float) -> str:
    epoch = view.epoch_of(step)
    return f"epoch {epoch:.3g}" if epoch is not None else f"step {step:g}"


def _at(view: View, step: float) -> str:
    return f"at {_when(view, step)}"
