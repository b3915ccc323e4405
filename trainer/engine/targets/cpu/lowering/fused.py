"""Launches of several loops: over the same rows, one after the other, and of equal code over different arrays."""

from __future__ import annotations

from trainer.engine.program.work import Buffer, KernelSource, Pass, Rows, Work, place_of
from trainer.engine.targets.cpu.kernels import chained, repeated
from trainer.engine.targets.cpu.kernels.chained import ChainedKernel
from trainer.engine.targets.cpu.kernels.repeated import RepeatedKernel
from trainer.engine.targets.cpu.lowering.launch import Address, Launch, Word
from trainer.engine.targets.cpu.lowering.loops import (
    TASK_ELEMENTS,
    kernel_of,
    lower_loop,
    lower_pass,
    without_streaming,
)


def lower_rows(work: Work) -> Launch:
    """A chain of loops: a task does `share` rows of each in turn."""
    spec: Rows = work.spec
    offsets, size = _offsets(spec)
    parts = [_kept_in_cache(part, work) for part in work.parts]
    words: list[Word] = []
    patched: list[int] = []
    strides: list[Word] = []
    for part, inner, blocks in zip(parts, spec.inner, spec.blocks, strict=True):
        words.append(blocks)
        own = _lowered(part).words
        for word in own[:-2]:
            if isinstance(word, Address) and word.buffer in offsets:
                patched.append(len(words))
                strides.append(spec.share * (word.buffer.nbytes // spec.count))
                word = offsets[word.buffer] + word.byte_offset
            words.append(word)
        words += [own[-2], spec.share] if isinstance(part.spec, Pass) else [spec.share * inner, 1]
    kernel = ChainedKernel(tuple(kernel_of(part) for part in parts), tuple(patched))
    renders = [part.code.render for part in parts if part.code is not None]
    code = KernelSource(kernel, lambda name: chained.render(kernel, renders, name))
    return Launch(work, code, words + strides, -(-spec.count // spec.share), size)


def _offsets(spec: Rows) -> tuple[dict[Buffer, int], int]:
    """Where in the scratch the rows of each local buffer lie, and how much they take."""
    offsets: dict[Buffer, int] = {}
    size = 0
    for buffer in spec.local:
        offsets[buffer] = size
        size += -(-spec.share * (buffer.nbytes // spec.count) // 64) * 64
    return offsets, size


def _kept_in_cache(part: Work, work: Work) -> Work:
    """A loop, storing through the caches where another part reads what it stores, or where its rows are unaligned."""
    places = {place_of(buffer) for buffer in part.targets}
    is_read = any(place_of(buffer) in places for other in work.parts if other is not part for buffer in other.sources)
    kernel = kernel_of(part)
    return without_streaming(part) if kernel.streamed and (is_read or kernel.rank == 1) else part


def _lowered(part: Work) -> Launch:
    return lower_pass(part) if isinstance(part.spec, Pass) else lower_loop(part)


def lower_group(work: Work) -> Launch:
    """One kernel over the argument blocks of all parts."""
    parts = [_lowered(part) for part in work.parts]
    first, kernel = parts[0].source, RepeatedKernel(kernel_of(work.parts[0]))
    total, points = sum(part.tasks for part in parts), sum(part.points for part in work.parts)
    grain = -(-total // max(1, min(total, -(-points // TASK_ELEMENTS))))
    words: list[Word] = [grain, total]
    for part in parts:
        words += [part.tasks, *part.words]
    code = KernelSource(kernel, lambda name: repeated.render(kernel, first.render, name))
    return Launch(work, code, words, -(-total // grain))
