"""Items whose values stay the same from run to run, because they depend only on states that the program does not write.

An evaluation packs and folds unchanged weights only once. The outputs of these items are stored outside the arena.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from trainer.engine.graph.storage import Storage
from trainer.engine.program.work import Buffer, Work


def constant_first(works: Sequence[Work], varying: Set[Storage]) -> tuple[list[Work], list[Work]]:
    """Splits off the items that read only storages outside `varying`, directly or through each other.

    Items that read no storage stay with the others, unless an item of the first list needs them.
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
    """Items that write only to the arena, read only constant arrays, and share their buffers with no other writers."""
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
