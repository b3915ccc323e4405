"""From items of the CPU to launches: kernels with their parameters, argument words, tasks and scratch memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainer.engine.program.work import Work
from trainer.engine.targets.cpu.lowering.fused import lower_group, lower_rows
from trainer.engine.targets.cpu.lowering.launch import (
    OPERANDS,
    Address,
    Launch,
    Routine,
    Templated,
    Tunable,
    Word,
    word_of,
)
from trainer.engine.targets.cpu.lowering.loops import lower_loop, lower_pass
from trainer.engine.targets.cpu.lowering.repeat import lower_repeat


def lower(work: Work, choose: Callable[[Any], Any]) -> Launch:
    """The launch of one item; `choose` picks the parameters of a template for a specification."""
    match work.kind:
        case "loop":
            return lower_loop(work)
        case "rows":
            return lower_rows(work)
        case "group":
            return lower_group(work)
        case "repeat":
            return lower_repeat(work, lambda part: lower(part, choose))
    spec = work.spec
    if isinstance(spec, Routine):
        words: list[Word] = [word if isinstance(word, int) else word_of(word) for word in spec.words]
        return Launch(work, spec.code, words, spec.tasks)
    if isinstance(spec, Templated):
        tunable = Tunable(spec.template, spec.spec, choose(spec.spec))
        views = (*work.reads[:OPERANDS], work.writes[0], *work.reads[OPERANDS:], *work.writes[1:])
        words = [*map(Address.of, views), *spec.template.words(spec.spec)]
        return Launch(work, tunable.source, words, tunable.tasks, tunable.scratch, tunable)
    return lower_pass(work)
