"""The phases of the run, nested under their parent: state, count, clock, and the item in progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from trainer.tui.frame import Frame
from trainer.tui.numbers import clock, duration
from trainer.tui.text import Line, crop, crop_line
from trainer.tui.view import Phase, View, speed_up

NAME_WIDTH = 10
CLOCK_WIDTH = 6
NARROW = 30
"""In a narrower panel, names of nested phases make room for their counts."""

MAX_WIDTH = 64
"""Maximum width of a line: a clock far from its phase's name is hard to assign to it."""

SETUP = "setup"
OF_SETUP = ("config", "load", "weights", "device", "data", "model", "resume", "trace", "compile", "autotune")
"""Phases that belong to the setup if they start before the training."""


class Node(NamedTuple):
    """A phase with the phases that run within it."""

    phase: Phase
    children: tuple[Phase, ...] = ()


def tree_of(phases: Mapping[str, Phase]) -> list[Node]:
    """The phases as a tree: preparations within the setup, validations and similar phases within the training."""
    train = phases.get("train")
    setup: list[Phase] = []
    within: list[Phase] = []
    others: list[Node] = []
    for phase in phases.values():
        if phase.name in OF_SETUP and (train is None or phase.started < train.started):
            setup.append(phase)
        elif train is not None and phase is not train and (train.is_active or phase.started < train.changed):
            within.append(phase)
        elif phase is not train:
            others.append(Node(phase))
    following = ([Node(train, tuple(within))] if train is not None else []) + others
    return ([Node(_setup(setup, is_over=bool(following)), tuple(setup))] if setup else []) + following


def _setup(children: list[Phase], is_over: bool) -> Phase:
    """The setup phase: active from its first preparation until another phase follows, also between preparations."""
    states = [phase.state for phase in children]
    if any(phase.is_active for phase in children) or not (is_over or "failed" in states):
        state = "progress"
    else:
        state = "failed" if "failed" in states else "finished"
    return Phase(SETUP, state, min(phase.started for phase in children), max(phase.changed for phase in children))


def phase_lines(view: View) -> int:
    """The number of lines that the phases take without folding."""
    return sum(1 + len(node.children) for node in tree_of(view.phases)) + sum(
        bool(_details(phase, view)) for phase in view.phases.values()
    )


def draw_phases(frame: Frame, width: int, height: int) -> list[Line]:
    """A line for each phase, two for one with an item in progress; finished phases are folded if the panel is low."""
    width = min(width, MAX_WIDTH)
    if not frame.view.phases:
        return [((f"{frame.glyphs.waiting} nothing has begun yet", "dim"),)]
    blocks = [block for node in tree_of(frame.view.phases) for block in _blocks(node, frame, width)]
    hidden: dict[str, int] = {}
    while sum(len(block.lines) for block in blocks) > height and len(blocks) > 1:
        rank = max(block.rank for block in blocks)
        dropped = next(block for block in blocks if block.rank == rank)
        hidden[dropped.parent] = hidden.get(dropped.parent, 0) + 1
        blocks.remove(dropped)
    lines: list[Line] = []
    for block in blocks:
        folded = hidden.get(block.phase.name, 0) if not block.parent else 0
        if folded and block.phase.done is None:
            lines += _lines(block.phase, frame, width, folded=folded)
        else:
            lines += block.lines
    return lines[:height]


@dataclass(frozen=True, eq=False)
class _Block:
    """The lines of one phase; blocks of the highest `rank` are folded first, the oldest before others."""

    phase: Phase
    parent: str
    rank: int
    lines: list[Line]


def _blocks(node: Node, frame: Frame, width: int) -> list[_Block]:
    phase = node.phase
    blocks = [_Block(phase, "", 0 if phase.is_active else 1, _lines(phase, frame, width))]
    for child in node.children:
        lines = _lines(child, frame, width, indent=2)
        blocks.append(_Block(child, phase.name, 0 if child.is_active else 2, lines))
    return blocks


def _lines(phase: Phase, frame: Frame, width: int, indent: int = 0, folded: int = 0) -> list[Line]:
    glyphs = frame.glyphs
    if phase.state == "failed":
        glyph, role = glyphs.failed, "bad"
    elif not phase.is_active:
        glyph, role = glyphs.finished, "good"
    elif frame.status.is_over:
        glyph, role = glyphs.stopped, "warn"
    else:
        glyph, role = glyphs.running, "busy"
    name_role = "strong" if role == "busy" else "text"
    now = phase.changed if frame.status.is_over else frame.now
    time = (clock if role == "busy" else duration)(phase.seconds(now)).rjust(CLOCK_WIDTH)
    name_width = NAME_WIDTH - (indent if width < NARROW else 0)
    room = max(0, width - indent - 2 - name_width - 1 - CLOCK_WIDTH)
    line: Line = (
        (" " * indent, "text"),
        (f"{glyph} ", role),
        (crop(phase.name, name_width, glyphs.ellipsis).ljust(name_width), name_role),
        ((_folded(folded, room) or _count(phase, room)).rjust(room), "dim" if folded else "text"),
        (f" {time}", "dim"),
    )
    lines = [crop_line(line, width, glyphs.ellipsis)]
    details = _details(phase, frame.view)
    if details:
        lines.append(((" " * (indent + 2) + crop(details, width - indent - 2, glyphs.ellipsis), "dim"),))
    return lines


def _folded(phases: int, room: int) -> str:
    """`3 phases`: the number of folded phases."""
    text = f"{phases} phase" + "s" * (phases > 1)
    return "" if not phases else text if len(text) <= room else f"+{phases}"


def _details(phase: Phase, view: View) -> str:
    """The speed-up of autotuning, and the item in progress."""
    gain = speed_up(view.decisions.values()) if phase.name == "autotune" else None
    parts = [f"{gain:.2f}x" if phase.is_active else f"{gain:.2f}x as fast"] if gain is not None else []
    parts += [phase.now] if phase.now and phase.is_active else []
    return "  ".join(parts)


def _count(phase: Phase, room: int) -> str:
    """`12/200`, or the share in percent if that is too wide."""
    if phase.done is None:
        return ""
    if not phase.total:
        text = f"{phase.done:g}"
    else:
        text = f"{phase.done:g}/{phase.total:g}"
        if len(text) > room:
            text = f"{phase.done / phase.total:.0%}"
    return text if len(text) <= room else ""
