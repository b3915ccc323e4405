"""Copies that a program makes for a layout alone: which, how much, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.compile.launch import Launch

REASONS = {
    "relayout": "a kernel that reads one layout only was given another",
    "pack": "a contraction reads its right-hand operand in panels",
    "terms": "a sum runs in logical order over axes that do not lie one after the other",
    "reshape": "merged axes do not lie one after the other",
    "result": "a result is handed out in row-major order",
    "keep": "a state's old value is needed after its update",
    "update": "a state's new value could not be computed in its place",
}
"""Labels of the launches that move elements and compute nothing, or would not be there in another layout."""


@dataclass(frozen=True, slots=True)
class LayoutCopy:
    """A launch that is there for a layout alone; `nbytes` are those that it writes."""

    launch: int
    label: str
    of: str
    nbytes: int
    reason: str


def layout_copies(launches: Sequence[Launch]) -> list[LayoutCopy]:
    """The launches, merged ones apart, that are there for a layout alone."""
    found = []
    for index, launch in enumerate(launches):
        for part in launch.parts or (launch,):
            reason = REASONS.get(part.label)
            if reason is not None:
                of = part.reads[0].label if part.reads else "nothing"
                found.append(LayoutCopy(index, part.label, of, sum(b.nbytes for b in part.writes), reason))
    return found
