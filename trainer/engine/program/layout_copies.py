"""Copies that a program makes only to change a layout: their sizes and reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.program.work import View, Work, place_of

REASONS = {
    "relayout": "a kernel that reads one layout only was given another",
    "pack": "a contraction reads its right-hand operand in panels",
    "terms": "a sum runs in logical order over axes that do not lie one after the other",
    "reshape": "merged axes do not lie one after the other",
    "result": "a result is handed out in row-major order",
    "keep": "a state's old value is needed after its update",
    "update": "a state's new value could not be computed in its place",
}
"""Reasons, by the label of launches that only move elements or that another layout would make unnecessary."""


@dataclass(frozen=True, slots=True)
class LayoutCopy:
    """A launch that writes `nbytes` only to change a layout; `repeats`: an earlier launch made the same copy."""

    launch: int
    label: str
    of: str
    nbytes: int
    reason: str
    repeats: bool = False


def layout_copies(works: Sequence[Work]) -> list[LayoutCopy]:
    """The items that only change a layout; merged items are listed separately."""
    found = []
    written: Counter[object] = Counter()
    made: set[object] = set()
    for index, work in enumerate(works):
        for part in work.parts or (work,):
            reason = REASONS.get(part.label)
            if reason is not None:
                of = part.sources[0].label if part.sources else "nothing"
                strides = tuple(view.strides for view in part.writes)
                code = part.code or (part.body if part.spec is None else part.spec.code)
                copied = code, part.extents, strides, _values(part.reads, written)
                nbytes = sum(buffer.nbytes for buffer in part.targets)
                found.append(LayoutCopy(index, part.label, of, nbytes, reason, copied in made))
                made.add(copied)
            written.update({place_of(buffer) for buffer in part.targets})
    return found


def _values(reads: Sequence[View], written: Counter[object]) -> tuple[object, ...]:
    """A key of the copied values: for each array its place, offset and strides, and how often it was written."""
    places = [None if view.buffer is None else place_of(view.buffer) for view in reads]
    return tuple((place, view.offset, view.strides, written[place]) for place, view in zip(places, reads, strict=True))
