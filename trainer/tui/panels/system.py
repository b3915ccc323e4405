"""The machine as the worker sees it: processor, memory, waiting for data; GPUs when there are any."""

from __future__ import annotations

from collections.abc import Iterable

from trainer.tui.frame import Frame
from trainer.tui.glyphs import Glyphs
from trainer.tui.numbers import size
from trainer.tui.text import Line, crop_line

SPARK_WIDTH = 8
LEAST_WORTH_SHOWING = 10_000
"""Bytes a second of disk or network below which a line would tell nothing."""


def draw_system(frame: Frame, width: int, height: int) -> list[Line]:
    """A line a quantity, the most telling first."""
    view, glyphs = frame.view, frame.glyphs
    system = view.system
    lines: list[Line] = []
    if system is not None:
        room = max(0, min(SPARK_WIDTH, width - 12))
        for name, label, value, top in (
            ("cpu", "cpu  ", system.cpu, 100.0),
            ("memory", "mem  ", system.memory, None),
            ("disk", "disk ", system.disk, None),
            ("network", "net  ", system.network, None),
        ):
            if value is None or (name in ("disk", "network") and value < LEAST_WORTH_SHOWING):
                continue
            history = list(view.histories.get(name, ()))[-room:] if room else []
            spark = sparkline(history, top or max(history, default=0.0) or 1.0, glyphs)
            figure = f"{value:.0f} %" if name == "cpu" else size(value) + ("/s" if name != "memory" else "")
            lines.append(((label, "dim"), (spark.ljust(room), "bar"), (f" {figure}", "text")))
        if system.data_wait is not None:
            role = "warn" if system.data_wait > 0.2 else "text"
            lines.append((("data ", "dim"), (f"{system.data_wait:.0%} of time waiting", role)))
        if system.step_ms is not None:
            lines.append((("step ", "dim"), (f"{system.step_ms:.3g} ms", "text")))
        for index, gpu in enumerate(system.gpus or ()):
            told = [f"{gpu['use']:.0f} %"] if "use" in gpu else []
            told += [size(gpu["memory"])] if "memory" in gpu else []
            told += [f"{gpu['power']:.0f} W"] if "power" in gpu else []
            told += [f"{gpu['temperature']:.0f} C"] if "temperature" in gpu else []
            history = list(view.histories.get(f"gpu{index}", ()))[-SPARK_WIDTH:]
            spark = sparkline(history, 100.0, glyphs) + " " if history else ""
            lines.append(((f"gpu{index} ", "dim"), (spark, "bar"), (" ".join(told), "text")))
        if system.metric_lag:
            lines.append((("lag  ", "dim"), (f"{system.metric_lag:g} records", "warn")))
    if view.device:
        where = f"{view.device}, {view.threads} threads" if view.threads else view.device
        lines.append((("on   ", "dim"), (where, "text")))
    if not lines:
        lines.append((("no sample yet", "dim"),))
    return [crop_line(line, width, glyphs.ellipsis) for line in lines[:height]]


def sparkline(values: Iterable[float], top: float, glyphs: Glyphs) -> str:
    """Values between 0 and `top` as a row of bars."""
    steps = len(glyphs.levels) - 1
    return "".join(glyphs.levels[min(steps, max(0, round(value / top * steps)))] for value in values)
