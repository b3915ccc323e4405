"""Expands repeats into sequences: a graph of launches has no loop, so each iteration is lowered separately."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from trainer.engine.graph.storage import Storage
from trainer.engine.program.work import Repeat, StandIn, View, Work


def each_time(work: Work) -> Iterator[Work]:
    """Yields the parts of a repeat for each iteration, on that iteration's operands."""
    spec: Repeat = work.spec
    stand_ins: dict[Storage | None, StandIn] = {each.storage: each for each in spec.stand_ins}
    for number in range(spec.count):

        def placed(view: View, number: int = number) -> View:
            each = None if view.buffer is None else stand_ins.get(view.buffer.storage)
            if each is None or view.buffer is None or view.buffer.storage is None:
                return view
            offset = view.offset + each.view.offset + number * each.step
            return replace(view, buffer=each.view.buffer, offset=offset)

        yield from (_on(part, placed) for part in work.parts)


def _on(part: Work, placed: Callable[[View], View]) -> Work:
    """Returns a part on other operands; in a nested repeat the stand-ins are replaced, too."""
    reads, writes = tuple(map(placed, part.reads)), tuple(map(placed, part.writes))
    if part.kind == "repeat":
        spec: Repeat = part.spec
        stand_ins = tuple([replace(each, view=placed(each.view)) for each in spec.stand_ins])
        parts = tuple([_on(inner, placed) for inner in part.parts])
        return replace(part, reads=reads, writes=writes, spec=replace(spec, stand_ins=stand_ins), parts=parts)
    return replace(part, reads=reads, writes=writes)
