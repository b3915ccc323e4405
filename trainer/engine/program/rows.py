"""Chains of loops over the same rows as one launch: softmax, cross entropy, norms of short rows.

Softmax of [N, C] is a maximum, exponentials, their sum and a quotient. Launched one by one each reads [N, C] from
memory again; as a chain a task does them all on a few rows that stay in its cache. The loops themselves, and so the
bits, are the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from trainer.engine.program.launch import Address, Buffer, KernelSource, Launch, place_of
from trainer.engine.program.spec import LoopKernel
from trainer.engine.targets.cpu.kernels import elementwise
from trainer.engine.targets.cpu.kernels.chained import ChainedKernel, render
from trainer.engine.targets.cpu.pool import SCRATCH_BYTES

LARGE = 512 << 10
"""Bytes from which on an array that two loops touch is worth keeping in the cache between them."""
CACHED = 128 << 10
"""Bytes that the rows of one task may take."""
FEWEST_TASKS = 16
MOVED = 256 << 10
"""Bytes that a launch may touch and still be put before or behind a chain that still grows; a loop behind it any."""
MOST_MOVED = 8


@dataclass(frozen=True, slots=True)
class _Rows:
    """How a loop runs over rows: `inner` elements each, done by `blocks` tasks, and what it touches there."""

    count: int
    inner: int
    blocks: int
    local: dict[object, bool]
    """Places touched, and whether row r is all that is touched of the r-th of `count` equal parts, for each r."""


@dataclass(slots=True)
class _Chain:
    """A chain that may grow: its loops, what goes before and behind it, and all of them in their own order."""

    count: int
    members: list[tuple[Launch, _Rows]] = field(default_factory=list)
    before: list[Launch] = field(default_factory=list)
    behind: list[Launch] = field(default_factory=list)
    order: list[Launch] = field(default_factory=list)

    def takes(self, launch: Launch, rows: _Rows | None) -> bool:
        """Whether `launch` reads of what the members write, and the other way round, its own rows alone."""
        if rows is None or any(_conflict(launch, other) for other in self.behind):
            return False
        for member, own in self.members:
            written = _places(member.writes) | _places(launch.writes)
            if not all(
                own.local[place] and rows.local[place] for place in written & own.local.keys() & rows.local.keys()
            ):
                return False
        return True

    def moves(self, launch: Launch) -> bool:
        """Put `launch` before the members where it does not conflict with them, else behind, if it may go there."""
        if len(self.before) + len(self.behind) == MOST_MOVED:
            return False
        size = sum(buffer.nbytes for buffer in (*launch.reads, *launch.writes))
        waits = any(_conflict(launch, other) for other in (*(member for member, _ in self.members), *self.behind))
        if size > MOVED and not (waits and isinstance(launch.source.key, LoopKernel)):
            return False
        (self.behind if waits else self.before).append(launch)
        self.order.append(launch)
        return True

    def shared(self) -> int:
        """Bytes of the largest array that two members touch."""
        seen: set[object] = set()
        most = 0
        for member, _ in self.members:
            buffers = {place_of(buffer): buffer for buffer in (*member.reads, *member.writes)}
            most = max([most, *(buffer.nbytes for place, buffer in buffers.items() if place in seen)])
            seen |= buffers.keys()
        return most


def chained(launches: Sequence[Launch]) -> list[Launch]:
    """The launches with chains of loops over the same rows as one; conflicting launches keep their order."""
    result: list[Launch] = []
    uses = Counter(buffer for launch in launches for buffer in {*launch.reads, *launch.writes})
    chain: _Chain | None = None
    for launch in launches:
        if chain is not None:
            rows = _rows(launch, chain.count)
            if chain.takes(launch, rows):
                assert rows is not None
                chain.members.append((launch, rows))
                chain.order.append(launch)
                continue
            if chain.moves(launch):
                continue
            result += _closed(chain, uses)
            chain = None
        rows = _first_rows(launch)
        if rows is None:
            result.append(launch)
        else:
            chain = _Chain(rows.count, [(launch, rows)], order=[launch])
    return result if chain is None else result + _closed(chain, uses)


def _closed(chain: _Chain, uses: Counter[Buffer]) -> list[Launch]:
    if not any(_loop(member).reduction for member, _ in chain.members):
        return chain.order  # loops alone: what could be one body is one already, and copies may go past the caches
    if len(chain.members) < 2 or chain.shared() < LARGE:
        return chain.order
    return [*chain.before, _joined(chain, uses), *chain.behind]


def _joined(chain: _Chain, uses: Counter[Buffer]) -> Launch:
    touched = Counter(
        buffer for member, _ in chain.members for buffer in dict.fromkeys((*member.reads, *member.writes))
    )
    local = [buffer for buffer in touched if all(own.local.get(place_of(buffer), True) for _, own in chain.members)]
    row_bytes = {buffer: buffer.nbytes // chain.count for buffer in local}
    share = max(1, min(CACHED // max(1, sum(row_bytes.values())), chain.count // FEWEST_TASKS))
    offsets: dict[Buffer, int] = {}
    size = 0
    for buffer in local:
        if buffer.in_arena and uses[buffer] == touched[buffer]:  # nobody else reads it: it needs no memory
            offsets[buffer] = size
            size += -(-share * row_bytes[buffer] // 64) * 64
    if size > SCRATCH_BYTES:
        offsets, size = {}, 0
    parts = [_kept_in_cache(member, chain) for member, _ in chain.members]
    words: list[int | Address] = []
    patched: list[int] = []
    strides: list[int | Address] = []
    for part, (_, own) in zip(parts, chain.members, strict=True):
        words.append(own.blocks)
        for word in part.words[:-2]:
            if isinstance(word, Address) and word.buffer in offsets:
                patched.append(len(words))
                strides.append(share * row_bytes[word.buffer])
                word = offsets[word.buffer] + word.byte_offset
            words.append(word)
        is_loop = _loop(part).reduction is None
        words += [share * own.inner, 1] if is_loop else [part.words[-2], share]
    kernel = ChainedKernel(tuple(_loop(part) for part in parts), tuple(patched))
    reads, writes = (
        tuple(dict.fromkeys(b for part in parts for b in (part.reads if is_read else part.writes) if b not in offsets))
        for is_read in (True, False)
    )
    return Launch(
        KernelSource(kernel, lambda name: render(kernel, [part.source.render for part in parts], name)),
        words + strides,
        -(-chain.count // share),
        reads,
        writes,
        f"rows {'+'.join(part.label for part in parts)}",
        scratch=size,
        parts=tuple(parts),
    )


def _loop(launch: Launch) -> LoopKernel:
    assert isinstance(launch.source.key, LoopKernel)
    return launch.source.key


def _kept_in_cache(launch: Launch, chain: _Chain) -> Launch:
    """`launch`, storing through the caches where another member reads what it stores, or where its rows lie askew."""
    kernel = _loop(launch)
    others = [member for member, _ in chain.members if member is not launch]
    is_read = any(_places(launch.writes) & _places(other.reads) for other in others)
    if not kernel.streamed or not (is_read or kernel.rank == 1):
        return launch
    plain = replace(kernel, streamed=False)
    return replace(launch, source=KernelSource(plain, lambda name: elementwise.render(plain, name)))


def _places(buffers: Sequence[Buffer]) -> set[object]:
    return {place_of(buffer) for buffer in buffers}


def _conflict(first: Launch, second: Launch) -> bool:
    """Whether one writes what the other touches."""
    touched, others = _places((*first.reads, *first.writes)), _places((*second.reads, *second.writes))
    return bool(_places(first.writes) & others or _places(second.writes) & touched)


def _first_rows(launch: Launch) -> _Rows | None:
    """The rows of a loop that a chain may begin with: it has two dimensions or more, and many rows."""
    kernel = launch.source.key
    if not isinstance(kernel, LoopKernel) or kernel.rank < 2:
        return None
    count = math.prod(_extents(launch, kernel)[:-1])
    if count < FEWEST_TASKS or max(b.nbytes for b in (*launch.reads, *launch.writes)) < LARGE:
        return None
    return _rows(launch, count)


def _rows(launch: Launch, count: int) -> _Rows | None:
    """How `launch` runs over `count` rows, or None where it doesn't, or where it changes a state."""
    kernel = launch.source.key
    if not isinstance(kernel, LoopKernel) or any(buffer.storage is not None for buffer in launch.writes):
        return None
    if not launch.tasks or (kernel.reduction is not None and kernel.reduction.orientation != "row"):
        return None
    if any(operand.inner == "strided" and not operand.index for operand in kernel.inputs):
        return None  # many rows at once are cheaper then: a cache line holds elements of several
    operands = [*kernel.inputs, *(operand for _, operand in kernel.outputs)]
    sizes = _extents(launch, kernel)
    length, chunk = sizes[-1], launch.words[-2]
    assert isinstance(chunk, int)
    if kernel.rank == 1 and kernel.reduction is None and length % count == 0:
        inner, blocks = length // count, 1
    elif kernel.rank > 1 and math.prod(sizes[:-1]) == count:
        inner, blocks = 1, 1 if kernel.reduction is None else -(-length // chunk)
    else:
        return None
    local: dict[object, bool] = {}
    start = len(operands) + kernel.rank
    for number, operand in enumerate(operands):
        address = launch.words[number]
        if operand.index or not isinstance(address, Address):
            continue
        own = launch.words[start + number * kernel.rank :][: kernel.rank]
        steps = [word for word in own if isinstance(word, int)]
        if kernel.rank == 1:
            pitch, reach = inner * steps[0], (inner - 1) * steps[0]
        else:
            extent = blocks if kernel.reduction is not None and number >= len(kernel.inputs) else length
            is_even = all(steps[axis] == steps[axis + 1] * sizes[axis + 1] for axis in range(kernel.rank - 2))
            pitch, reach = steps[-2] if is_even else 0, (extent - 1) * steps[-1]
        buffer = address.buffer
        offset = address.byte_offset // operand.dtype.itemsize
        fits = pitch * count == buffer.size and min(offset, reach) >= 0 and offset + reach < pitch
        place = place_of(buffer)
        local[place] = fits and operand.dtype.itemsize == buffer.dtype.itemsize and local.get(place, True)
    return _Rows(count, inner, blocks, local)


def _extents(launch: Launch, kernel: LoopKernel) -> list[int]:
    """The iteration space of a loop, outermost first."""
    first = len(kernel.inputs) + len(kernel.outputs)
    return [word for word in launch.words[first : first + kernel.rank] if isinstance(word, int)]
