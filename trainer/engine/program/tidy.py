"""Tidying a body once all its results are known: only what they need, renumbered."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.program.body import Body, Load, prune, renumbered
from trainer.engine.program.spec import Instruction


def tidy(body: Body, stored: Sequence[int]) -> tuple[list[Instruction], list[Load], list[int]]:
    """Only the instructions and operands that the instructions in `stored` need, and these, renumbered."""
    kept, place = prune(body.instructions, stored)
    used = sorted({instruction.attributes[0] for instruction in kept if instruction.operation == "load"})
    number = {old: new for new, old in enumerate(used)}
    return renumbered(kept, number), [body.loads[old] for old in used], [place[position] for position in stored]
