"""The progress of training: the bar, and the figures of the header."""

from __future__ import annotations

import math

from trainer.tui.frame import Frame
from trainer.tui.numbers import duration, plural
from trainer.tui.text import Line, crop_line, line_width
from trainer.tui.view import View

MIN_SHARE = 0.01
"""Below this share, an estimate would extrapolate the compilation of the first step."""


def train_share(view: View) -> float | None:
    """Share of training that is done, 0 to 1; None while it is unknown."""
    train = view.phases.get("train")
    if train is None or not train.total:
        return None
    done = train.done
    if (train.unit or "").startswith("epoch") and view.epoch is not None:
        done = max(done or 0.0, view.epoch)  # metrics report the epoch at each step, the phase only at each epoch
    return None if done is None else min(1.0, max(0.0, done / train.total))


def epoch_text(view: View) -> str | None:
    """`3/10`: the current epoch and the number of epochs."""
    total = _epochs(view)
    if view.epoch is None:
        return None if total is None else f"0/{total:g}"
    current = max(1, math.ceil(view.epoch - 1e-9))
    return f"{current}/{total:g}" if total else f"{current}"


def _epochs(view: View) -> float | None:
    """The number of epochs: the total of the phase, else from the steps per epoch."""
    train = view.phases.get("train")
    if train is None or not train.total:
        return None
    unit = train.unit or ""
    if unit.startswith("epoch"):
        return train.total
    if unit.startswith("step") and view.epoch and view.step:
        return round(train.total * view.epoch / view.step)
    return None


def remaining_seconds(view: View, now: float) -> float | None:
    """Estimated seconds until the end of training: the worker's estimate, else from the share that is done."""
    train = view.phases.get("train")
    if train is None or not train.is_active:
        return None
    if train.remaining is not None:
        return max(0.0, train.remaining - (now - train.changed))
    share = train_share(view)
    if share is None or share < MIN_SHARE:
        return None
    reached = max(train.changed, view.recent_steps[-1][0] if view.recent_steps else 0.0)
    return (reached - train.started) * (1 - share) / share - (now - reached)


def draw_progress(frame: Frame, width: int, height: int) -> list[Line]:
    """One line: the phase, a bar, the share that is done and the remaining time."""
    view, glyphs = frame.view, frame.glyphs
    active = [phase for phase in view.phases.values() if phase.is_active and phase.total]
    train = view.phases.get("train")
    phase = train if train is not None else active[-1] if active else None
    if phase is None or not phase.total:
        waiting = [item.name for item in view.phases.values() if item.is_active]
        text = "waiting for " + waiting[-1] if waiting else "waiting for the first event"
        return [((" " + (frame.status.word.lower() if frame.status.is_over else text), "dim"),)]
    share = train_share(view) if phase is train else min(1.0, (phase.done or 0.0) / phase.total)
    share = share or 0.0
    figures = f" {share:4.0%}  {phase.done or 0:g}/{phase.total:g}"
    if phase.unit:
        figures += f" {plural(phase.unit)}"
    left = remaining_seconds(view, frame.now)
    if left is not None and frame.status.is_moving:
        figures += f"  {duration(left)} left"
    label = f" {phase.name} "
    room = max(4, width - len(label) - len(figures) - 1)
    full = round(share * room)
    line: Line = (
        (label, "strong"),
        (glyphs.bar_full * full, "bar"),
        (glyphs.bar_empty * (room - full), "dim"),
        (figures, "text"),
    )
    return [crop_line(line, width, glyphs.ellipsis) if line_width(line) > width else line]
