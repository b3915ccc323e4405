"""Copies that a program makes for a layout alone: which, how much, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.program.launch import Address, Launch, place_of

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
    """A launch that is there for a layout alone; `nbytes` are those that it writes. `repeats`: an earlier launch has
    copied the same values into the same layout.
    """

    launch: int
    label: str
    of: str
    nbytes: int
    reason: str
    repeats: bool = False


def layout_copies(launches: Sequence[Launch]) -> list[LayoutCopy]:
    """The launches, merged ones apart, that are there for a layout alone."""
    found = []
    written: Counter[object] = Counter()
    made: set[object] = set()
    for index, launch in enumerate(launches):
        for part in launch.parts or (launch,):
            reason = REASONS.get(part.label)
            if reason is not None:
                of = part.reads[0].label if part.reads else "nothing"
                copied = part.source, tuple(_value(word, part, written) for word in part.words)
                nbytes = sum(buffer.nbytes for buffer in part.writes)
                found.append(LayoutCopy(index, part.label, of, nbytes, reason, copied in made))
                made.add(copied)
            written.update({place_of(buffer) for buffer in part.writes})
    return found


def _value(word: int | Address, launch: Launch, written: Counter[object]) -> object:
    """What an argument says of the values that are copied: of an array which one, and how often it was written."""
    if isinstance(word, int):
        return word
    place = place_of(word.buffer)
    return (place, word.byte_offset, written[place]) if word.buffer in launch.reads else "copy"
