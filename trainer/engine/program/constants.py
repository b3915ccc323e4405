"""Items whose values stay the same from run to run, because they depend only on states that the program does not write.

An evaluation packs and folds its weights once while they are unchanged. The outputs of these items lie outside the
arena.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from trainer.engine.graph.storage import Storage
from trainer.engine.program.work import Buffer, Work


def constant_first(works: Sequence[Work], varying: Set[Storage]) -> tuple[list[Work], list[Work]]:
    """Items that read nothing but memories outside `varying`, directly or through each other, and all others.

    Items that read no memory at all stay with the others, unless an item of the first list needs them.
    """
    constant = _constant(works, varying)
    derived: set[Buffer] = set()
    for work in works:
        if work in constant and any(buffer.storage is not None or buffer in derived for buffer in work.sources):
            derived.update(work.targets)
    chosen: set[Work] = set()
    for work in reversed(works):
        if work in constant and not derived.isdisjoint(work.targets):
            chosen.add(work)
            derived.update(work.sources)
    for work in chosen:
        for buffer in work.targets:
            buffer.kept = True
    return [work for work in works if work in chosen], [work for work in works if work not in chosen]


def _constant(works: Sequence[Work], varying: Set[Storage]) -> set[Work]:
    """Items that write the arena alone, read constant arrays alone, and share what they write with none but such."""
    constant = {work for work in works if not work.effect and all(buffer.in_arena for buffer in work.targets)}
    while True:
        touched = {buffer for work in works if work not in constant for buffer in work.targets}
        left = {
            work
            for work in constant
            if touched.isdisjoint(work.buffers) and all(buffer.storage not in varying for buffer in work.sources)
        }
        if len(left) == len(constant):
            return constant
        constant = left
