"""The compiled programs of a traced step, as text."""

from __future__ import annotations

from typing import Any

from trainer.engine.targets.cpu.describe import describe_program
from trainer.engine.tracing.trace import Traced


def explain(traced: Traced[..., Any], level: int = 2) -> str:
    """Describes the programs compiled so far for a traced step; `level` as in `describe_program`."""
    if not traced.programs:
        return "no program yet: a step is compiled when it is first called"
    return "\n".join(describe_program(program, level) for program in traced.programs)
