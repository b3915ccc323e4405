"""Lowers CPU items to launches: kernels with their parameters, argument words, tasks and scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainer.engine.graph.storage import Storage
from trainer.engine.program.work import Buffer, Pass, Repeat, Rows, StandIn, Work, place_of
from trainer.engine.targets.cpu.kernels.chained import ChainedKernel
from trainer.engine.targets.cpu.kernels.repeated import RepeatedKernel
from trainer.engine.targets.cpu.lowering import loops
from trainer.engine.targets.cpu.lowering.launch import (
    Address,
    Launch,
    Place,
    Routine,
    Templated,
    Tunable,
    Word,
    word_of,
)
from trainer.engine.targets.cpu.lowering.sources import source_of
from trainer.engine.targets.cpu.template import OPERANDS


def lower(work: Work, choose: Callable[[Any], Any]) -> Launch:
    """Lowers one item to a launch; `choose` picks the parameters of a template for a specification."""
    match work.kind:
        case "loop":
            return loops.lower_loop(work)
        case "rows":
            parts = [_kept_in_cache(part, work) for part in work.parts]
            return _lower_rows(work, parts, [lower(part, choose) for part in parts])
        case "group":
            return _lower_group(work, [lower(part, choose) for part in work.parts])
        case "repeat":
            return _lower_repeat(work, tuple(lower(part, choose) for part in work.parts))
    spec = work.spec
    if isinstance(spec, Routine):
        words: list[Word] = [word if isinstance(word, int) else word_of(word) for word in spec.words]
        return Launch(work, spec.code, words, spec.tasks, spec.scratch)
    if isinstance(spec, Templated):
        tunable = Tunable(spec.template, spec.spec, choose(spec.spec))
        views = (*work.reads[:OPERANDS], work.writes[0], *work.reads[OPERANDS:], *work.writes[1:])
        words = [*map(Address.of, views), *spec.template.words(spec.spec)]
        return Launch(work, tunable.source, words, tunable.tasks, tunable.scratch, tunable)
    return loops.lower_pass(work)


def _lower_rows(work: Work, parts: Sequence[Work], launches: Sequence[Launch]) -> Launch:
    """Lowers successive loops over the same rows: a task computes `share` rows of each loop in turn."""
    spec: Rows = work.spec
    offsets, size = _offsets(spec)
    words: list[Word] = []
    patched: list[int] = []
    strides: list[Word] = []
    for part, launch, inner, blocks in zip(parts, launches, spec.inner, spec.blocks, strict=True):
        words.append(blocks)
        for word in launch.words[:-2]:
            if isinstance(word, Address) and word.buffer in offsets:
                patched.append(len(words))
                strides.append(spec.share * (word.buffer.nbytes // spec.count))
                word = offsets[word.buffer] + word.byte_offset
            words.append(word)
        words += [launch.words[-2], spec.share] if isinstance(part.spec, Pass) else [spec.share * inner, 1]
    kernel = ChainedKernel(tuple(loops.kernel_of(part) for part in parts), tuple(patched))
    return Launch(work, source_of(kernel), words + strides, -(-spec.count // spec.share), size)


def _offsets(spec: Rows) -> tuple[dict[Buffer, int], int]:
    """Returns the scratch offset of each local buffer's rows, and their total size, in bytes."""
    offsets: dict[Buffer, int] = {}
    size = 0
    for buffer in spec.local:
        offsets[buffer] = size
        size += -(-spec.share * (buffer.nbytes // spec.count) // 64) * 64
    return offsets, size


def _kept_in_cache(part: Work, work: Work) -> Work:
    """Returns a loop that stores through the caches if another part reads its outputs or its rows are unaligned."""
    places = {place_of(buffer) for buffer in part.targets}
    is_read = any(place_of(buffer) in places for other in work.parts if other is not part for buffer in other.sources)
    kernel = loops.kernel_of(part)
    return loops.without_streaming(part) if kernel.streamed and (is_read or kernel.rank == 1) else part


def _lower_group(work: Work, parts: Sequence[Launch]) -> Launch:
    """Lowers loops with equal code over different arrays to one kernel over all argument blocks."""
    kernel = RepeatedKernel(loops.kernel_of(work.parts[0]))
    total, points = sum(part.tasks for part in parts), sum(part.points for part in work.parts)
    grain = -(-total // max(1, min(total, -(-points // loops.TASK_ELEMENTS))))
    words: list[Word] = [grain, total]
    for part in parts:
        words += [part.tasks, *part.words]
    return Launch(work, source_of(kernel), words, -(-total // grain))


def _lower_repeat(work: Work, body: tuple[Launch, ...]) -> Launch:
    """Lowers a repeat, which runs launches with moving addresses: argument blocks of parts, then (word, step) pairs."""
    spec: Repeat = work.spec
    stand_ins: dict[Storage | None, StandIn] = {each.storage: each for each in spec.stand_ins}
    words: list[Word] = []
    table: list[Word] = []
    for part, launch, steps in zip(work.parts, body, spec.steps or ((),) * len(body), strict=True):
        for view, place, step in zip((*part.reads, *part.writes), _places(part), steps, strict=True) if steps else ():
            if step:
                nbytes = 1 if view.buffer is None else view.dtype.itemsize
                table += [Place(len(words) + place), step * nbytes]
        start = len(words)
        for word in launch.words:
            if isinstance(word, Place):
                word = Place(start + word.index)
            elif isinstance(word, Address):
                each = stand_ins.get(word.buffer.storage)
                if each is not None and each.step:
                    table += [Place(len(words)), each.step * each.view.dtype.itemsize]
                word = word if each is None else Address.of(each.view, word.byte_offset)
            words.append(word)
    source = source_of(("repeat", *[launch.source.key for launch in body]))
    tasks = max(launch.tasks for launch in body) if spec.count else 0
    scratch = max(launch.scratch for launch in body)
    return Launch(work, source, [*words, *table], tasks, scratch, body=body)


def _places(part: Work) -> list[int]:
    """Returns the index of each operand's address in a part's argument block, reads first."""
    reads, count = len(part.reads), len(part.reads) + len(part.writes)
    if isinstance(part.spec, Routine):
        return [part.spec.words.index(view) for view in (*part.reads, *part.writes)]
    if isinstance(part.spec, Templated):
        first = min(OPERANDS, reads)
        return [*range(first), *range(first + 1, reads + 1), first, *range(reads + 1, count)]
    return list(range(count))
