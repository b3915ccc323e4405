"""Repeats: several launches as the body of one record, which the pool walks again and again with moving addresses."""

from __future__ import annotations

from collections.abc import Callable

from trainer.engine.program.work import KernelSource, Repeat, Work
from trainer.engine.targets.cpu.lowering.launch import OPERANDS, Launch, Place, Routine, Templated, Word


def lower_repeat(work: Work, lower: Callable[[Work], Launch]) -> Launch:
    """The argument blocks of all parts, then the table of what moves: the address of a word, and its step."""
    spec: Repeat = work.spec
    body = tuple([lower(part) for part in work.parts])
    words: list[Word] = []
    table: list[Word] = []
    for part, launch, steps in zip(work.parts, body, spec.steps, strict=True):
        for view, place, step in zip((*part.reads, *part.writes), _places(part), steps, strict=True):
            if step:
                nbytes = 1 if view.buffer is None else view.dtype.itemsize
                table += [Place(len(words) + place), step * nbytes]
        words += launch.words
    source = KernelSource(("repeat", *[launch.source.key for launch in body]), _render)
    tasks = max(launch.tasks for launch in body) if spec.count else 0
    scratch = max(launch.scratch for launch in body)
    return Launch(work, source, [*words, *table], tasks, scratch, body=body)


def _places(part: Work) -> list[int]:
    """Which word of a part's argument block is the address of each operand, reads first."""
    reads, count = len(part.reads), len(part.reads) + len(part.writes)
    if isinstance(part.spec, Routine):
        return [part.spec.words.index(view) for view in (*part.reads, *part.writes)]
    if isinstance(part.spec, Templated):
        return [*range(OPERANDS), *range(OPERANDS + 1, reads + 1), OPERANDS, *range(reads + 1, count)]
    return list(range(count))


def _render(name: str) -> str:
    raise AssertionError("a repeat has no code: its body has")
