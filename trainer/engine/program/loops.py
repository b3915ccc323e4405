"""Loops in one canonical form: as few axes as possible, outermost first, so that equal work has equal items.

The form depends only on shapes and strides, so equal graphs give equal items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from trainer.engine.program.spec import Instruction
from trainer.engine.program.work import Buffer, Exchanges, Repeat, StandIn, View, Work, joined

REDUCTION_BLOCK = 512
REDUCTION_BLOCKS = 256


def loop(
    extents: Sequence[int], body: Sequence[Instruction], reads: Sequence[View], writes: Sequence[View],
    stored: Sequence[int], label: str,
) -> Work:  # fmt: skip
    """An element-wise loop over `extents`, in any order; the strides of the first output decide the loop order."""
    order = sorted(
        (axis for axis in range(len(extents)) if extents[axis] != 1),
        key=lambda axis: (-abs(writes[0].strides[axis]), axis),
    )
    operands = [view.strides for view in (*reads, *writes)]
    sizes, strides = collapse([extents[a] for a in order], [[s[a] for a in order] for s in operands])
    return Work(
        "loop", None, laid(reads, sizes, strides), laid(writes, sizes, strides[len(reads) :]), label, tuple(sizes),
        tuple(body), tuple(stored), in_place=_exchanges(extents, reads, writes),
    )  # fmt: skip


def copy(source: View, target: View, label: str) -> Work:
    """A loop that stores `source` into `target`, of the same shape."""
    return loop(source.shape, [Instruction("load", (), source.dtype, (0,))], [source], [target], [0], label)


def repeat(parts: Sequence[Work], steps: Sequence[Sequence[int]], count: int, label: str) -> Work:
    """An item that runs `parts` in turn, `count` times; their operands advance by `steps` (see `Repeat`)."""
    return joined("repeat", Repeat(count, tuple([tuple(each) for each in steps])), parts, label)


def repeat_of(parts: Sequence[Work], stand_ins: Sequence[StandIn], count: int, label: str) -> Work:
    """An item that runs `parts` in turn, `count` times, on the views of `stand_ins` and on the parts' other buffers."""
    used = {buffer.storage for part in parts for buffer in part.buffers}
    stand_ins = [each for each in stand_ins if each.storage in used]
    made = dict.fromkeys(buffer for part in parts for buffer in part.targets if buffer.storage is None)
    given = dict.fromkeys(buffer for part in parts for buffer in part.sources if buffer.storage is None)
    reads = [each.view for each in stand_ins if not each.is_written]
    reads += [View(buffer, buffer.dtype, (buffer.size,), (1,)) for buffer in given if buffer not in made]
    writes = [each.view for each in stand_ins if each.is_written]
    writes += [View(buffer, buffer.dtype, (buffer.size,), (1,)) for buffer in made]
    return Work(
        "repeat", Repeat(count, stand_ins=tuple(stand_ins)), tuple(reads), tuple(writes), label, parts=tuple(parts)
    )


def fill(target: Buffer, value: int | float | bool) -> Work:
    """A loop that fills `target` with one value."""
    body = [Instruction("constant", (), target.dtype, (value,))]
    return loop((target.size,), body, [], [View(target, target.dtype, (target.size,), (1,))], [0], "fill")


def laid(views: Sequence[View], extents: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[View, ...]:
    """The views with new extents and strides."""
    return tuple(
        replace(view, shape=tuple(extents), strides=tuple(steps)) for view, steps in zip(views, strides, strict=False)
    )


def _exchanges(extents: Sequence[int], reads: Sequence[View], writes: Sequence[View]) -> Exchanges:
    """(output, input) pairs of equal size that a loop walks with equal strides; no other operand reads the input."""
    found: list[tuple[Buffer, Buffer]] = []
    axes = [axis for axis, extent in enumerate(extents) if extent != 1]
    for write in writes:
        target = write.buffer
        assert target is not None
        if write.offset or not target.in_arena or target.size != math.prod(extents):
            continue
        for read in reads:
            source = read.buffer
            if source is None or not source.in_arena or source.nbytes != target.nbytes or read.offset:
                continue
            once = sum(other.buffer is source for other in reads) == 1
            if once and all(read.strides[axis] == write.strides[axis] for axis in axes):
                found.append((target, source))
    return tuple(found)


def reduction_block(length: int) -> int:
    """Elements in a block of the fixed reduction tree; depends only on the number of reduced elements."""
    return max(REDUCTION_BLOCK, -(-length // REDUCTION_BLOCKS) + 15 & ~15)


def collapse(
    extents: Sequence[int], strides: Sequence[Sequence[int]], keep_one: bool = True
) -> tuple[list[int], list[list[int]]]:
    """Merges neighboring axes (outermost first) wherever every operand steps through both as through one."""
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        if sizes and all(m[-1] == s[axis] * extent for m, s in zip(merged, strides, strict=True)):
            sizes[-1] *= extent
            for m, s in zip(merged, strides, strict=True):
                m[-1] = s[axis]
        else:
            sizes.append(extent)
            for m, s in zip(merged, strides, strict=True):
                m.append(s[axis])
    if not sizes and keep_one:
        return [1], [[0] for _ in strides]
    return sizes, merged
