"""The worker's samples of its machine: processor, memory, waiting for data, and GPUs if there are any."""

from __future__ import annotations

from collections.abc import Iterable

from trainer.tui.diagnosis import DATA_WAIT
from trainer.tui.frame import Frame
from trainer.tui.glyphs import UNICODE, Glyphs
from trainer.tui.numbers import size
from trainer.tui.text import Line, crop_line
from trainer.tui.view import View

SPARK_WIDTH = 8
MIN_BYTES_PER_SECOND = 10_000
"""Disk or network traffic below this is not shown."""


def system_lines(view: View) -> int:
    """The number of lines to show; 0 before the first sample of the machine."""
    return 0 if view.system is None else len(_all_lines(view, SPARK_WIDTH, UNICODE))


def draw_system(frame: Frame, width: int, height: int) -> list[Line]:
    """A line for each quantity, the most important first."""
    glyphs = frame.glyphs
    room = max(0, min(SPARK_WIDTH, width - 14))
    lines = _all_lines(frame.view, room, glyphs) or [(("no sample yet", "dim"),)]
    return [crop_line(line, width, glyphs.ellipsis) for line in lines[:height]]


def _all_lines(view: View, room: int, glyphs: Glyphs) -> list[Line]:
    """All lines, with sparklines of `room` cells."""
    system = view.system
    lines: list[Line] = []
    if system is not None:
        for name, label, value, top in (
            ("cpu", "cpu  ", system.cpu, 100.0),
            ("memory", "mem  ", system.memory, None),
            ("disk", "disk ", system.disk, None),
            ("network", "net  ", system.network, None),
        ):
            if value is None or (name in ("disk", "network") and value < MIN_BYTES_PER_SECOND):
                continue
            history = list(view.histories.get(name, ()))[-room:] if room else []
            spark = sparkline(history, top or max(history, default=0.0) or 1.0, glyphs)
            figure = f"{value:.0f} %" if name == "cpu" else size(value) + ("/s" if name != "memory" else "")
            lines.append(((label, "dim"), (spark.ljust(room), "bar"), (f" {figure}", "text")))
        if system.data_wait is not None:
            role = "warn" if system.data_wait >= DATA_WAIT else "text"
            lines.append((("data ", "dim"), (f"{system.data_wait:.0%} waiting", role)))
        if system.step_ms is not None:
            lines.append((("step ", "dim"), (f"{system.step_ms:.3g} ms", "text")))
        for index, gpu in enumerate(system.gpus or ()):
            parts = [f"{gpu['use']:.0f} %"] if "use" in gpu else []
            parts += [size(gpu["memory"])] if "memory" in gpu else []
            parts += [f"{gpu['power']:.0f} W"] if "power" in gpu else []
            parts += [f"{gpu['temperature']:.0f} C"] if "temperature" in gpu else []
            history = list(view.histories.get(f"gpu{index}", ()))[-room:] if room else []
            spark = sparkline(history, 100.0, glyphs) + " " if history else ""
            lines.append(((f"gpu{index} ", "dim"), (spark, "bar"), (" ".join(parts), "text")))
        if system.metric_lag:
            lines.append((("lag  ", "dim"), (f"{system.metric_lag:g} records", "warn")))
    if view.device:
        where = f"{view.device}, {view.threads} threads" if view.threads else view.device
        lines.append((("on   ", "dim"), (where, "text")))
    return lines


def sparkline(values: Iterable[float], top: float, glyphs: Glyphs) -> str:
    """Values between 0 and `top` as a row of bars."""
    steps = len(glyphs.levels) - 1
    return "".join(glyphs.levels[min(steps, max(0, round(value / top * steps)))] for value in values)
