"""Joins chains of loops over the same rows into one item: softmax, cross entropy, norms of short rows.

Softmax of [N, C] is a maximum, exponentials, their sum and a quotient. Run one by one, each loop reads [N, C] from
memory again. In a chain, a task runs all of them on a few rows that stay in its cache. The loops, and so the bits, are
the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer.engine.program.target import Features
from trainer.engine.program.work import Buffer, Pass, Rows, Work, conflict, joined, place_of, places_of

MOST_MOVED = 8
"""Maximum number of items that may run before or after a chain that still grows."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """How a loop runs over `count` rows: `inner` elements each, in `blocks` blocks, and the places that it touches."""

    count: int
    inner: int
    blocks: int
    local: dict[object, bool]
    """By touched place, whether each row r touches only the r-th of `count` equal parts of the place."""


@dataclass(slots=True)
class _Chain:
    """A chain that may grow: its loops, the items before and after it, and all of them in order."""

    count: int
    members: list[tuple[Work, _Rows]] = field(default_factory=list)
    before: list[Work] = field(default_factory=list)
    behind: list[Work] = field(default_factory=list)
    order: list[Work] = field(default_factory=list)

    def takes(self, work: Work, rows: _Rows | None) -> bool:
        """Whether row r of `work` and of the members touches only row r of the arrays that any of them writes."""
        if rows is None or any(conflict(work, other) for other in self.behind):
            return False
        for member, own in self.members:
            written = places_of((*member.targets, *work.targets))
            if not all(
                own.local[place] and rows.local[place] for place in written & own.local.keys() & rows.local.keys()
            ):
                return False
        return True

    def moves(self, work: Work, features: Features) -> bool:
        """Moves `work` before the members if it does not conflict with them, else behind; False if it may not move."""
        if len(self.before) + len(self.behind) == MOST_MOVED:
            return False
        size = sum(buffer.nbytes for buffer in (*work.sources, *work.targets))
        waits = any(conflict(work, other) for other in (*(member for member, _ in self.members), *self.behind))
        if size > features.moved_bytes and not (waits and work.code is not None):
            return False
        (self.behind if waits else self.before).append(work)
        self.order.append(work)
        return True

    def shared(self) -> int:
        """Bytes of the largest array that two members touch."""
        touched: set[object] = set()
        most = 0
        for member, _ in self.members:
            buffers = {place_of(buffer): buffer for buffer in member.buffers}
            most = max([most, *(buffer.nbytes for place, buffer in buffers.items() if place in touched)])
            touched |= buffers.keys()
        return most


def chained(works: Sequence[Work], features: Features) -> list[Work]:
    """The items, with each chain of loops over the same rows joined into one; conflicting items keep their order."""
    result: list[Work] = []
    uses = Counter(buffer for work in works for buffer in work.buffers)
    chain: _Chain | None = None
    for work in works:
        if chain is not None:
            rows = _rows(work, chain.count)
            if chain.takes(work, rows):
                assert rows is not None
                chain.members.append((work, rows))
                chain.order.append(work)
                continue
            if chain.moves(work, features):
                continue
            result += _closed(chain, uses, features)
            chain = None
        rows = _first_rows(work, features)
        if rows is None:
            result.append(work)
        else:
            chain = _Chain(rows.count, [(work, rows)], order=[work])
    return result if chain is None else result + _closed(chain, uses, features)


def _closed(chain: _Chain, uses: Counter[Buffer], features: Features) -> list[Work]:
    if not any(member.kind == "reduction" for member, _ in chain.members):
        return chain.order  # only loops: those that fit one body are fused already, and copies may bypass the caches
    if len(chain.members) < 2 or chain.shared() < features.chained_bytes:
        return chain.order
    return [*chain.before, _joined(chain, uses, features), *chain.behind]


def _joined(chain: _Chain, uses: Counter[Buffer], features: Features) -> Work:
    parts = [member for member, _ in chain.members]
    touched = Counter(buffer for part in parts for buffer in part.buffers)
    local = [buffer for buffer in touched if all(own.local.get(place_of(buffer), True) for _, own in chain.members)]
    row_bytes = {buffer: buffer.nbytes // chain.count for buffer in local}
    share = max(1, min(features.task_bytes // max(1, sum(row_bytes.values())), chain.count // features.fewest_tasks))
    kept = [buffer for buffer in local if buffer.in_arena and uses[buffer] == touched[buffer]]  # no other item reads it
    if sum(-(-share * row_bytes[buffer] // 64) * 64 for buffer in kept) > features.scratch_bytes:
        kept = []
    rows = [own for _, own in chain.members]
    spec = Rows(
        chain.count, share, tuple(each.inner for each in rows), tuple(each.blocks for each in rows), tuple(kept)
    )
    return joined("rows", spec, parts, f"rows {'+'.join(part.label for part in parts)}", set(kept))


def _first_rows(work: Work, features: Features) -> _Rows | None:
    """The rows of a loop that a chain may begin with: it has at least two dimensions and many rows; else None."""
    if work.code is None or len(work.extents) < 2:
        return None
    count = math.prod(work.extents[:-1])
    largest = max(buffer.nbytes for buffer in work.buffers)
    if count < features.fewest_tasks or largest < features.chained_bytes:
        return None
    return _rows(work, count)


def _rows(work: Work, count: int) -> _Rows | None:
    """How `work` runs over `count` rows; None if it doesn't, or if it changes a state."""
    if work.code is None or not work.points or any(buffer.storage is not None for buffer in work.targets):
        return None
    reduces = isinstance(work.spec, Pass)
    if reduces and work.spec.orientation != "row":
        return None
    if any(view.buffer is not None and view.strides[-1] not in (0, 1) for view in work.reads):
        return None  # many rows at once are cheaper: a cache line holds elements of several rows
    rank, length = len(work.extents), work.extents[-1]
    if rank == 1 and not reduces and length % count == 0:
        inner, blocks = length // count, 1
    elif rank > 1 and math.prod(work.extents[:-1]) == count:
        inner, blocks = 1, -(-length // work.spec.block) if reduces else 1
    else:
        return None
    local: dict[object, bool] = {}
    for number, view in enumerate((*work.reads, *work.writes)):
        buffer, steps = view.buffer, view.strides
        if buffer is None:
            continue
        if rank == 1:
            pitch, span = inner * steps[0], (inner - 1) * steps[0]
        else:
            extent = blocks if reduces and number >= len(work.reads) else length
            is_even = all(steps[axis] == steps[axis + 1] * work.extents[axis + 1] for axis in range(rank - 2))
            pitch, span = steps[-2] if is_even else 0, (extent - 1) * steps[-1]
        fits = pitch * count == buffer.size and min(view.offset, span) >= 0 and view.offset + span < pitch
        place = place_of(buffer)
        local[place] = fits and view.dtype.itemsize == buffer.dtype.itemsize and local.get(place, True)
    return _Rows(count, inner, blocks, local)
