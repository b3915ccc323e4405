"""The launches of one item of work, by its kind; what no kernel computes yet is refused by name."""

from __future__ import annotations

from trainer.engine.graph.errors import refusal
from trainer.engine.program.work import Call, Work
from trainer.engine.targets.ptx.launch import Launch
from trainer.engine.targets.ptx.lowering.loops import lower_loop
from trainer.engine.targets.ptx.lowering.reductions import lower_reduction


def lower(work: Work, *, flush: bool) -> list[Launch]:
    """The launches of an item, in order. With `flush` subnormal float32 numbers count as zeros.

    Raises `TrainerError` for an operation that has no kernel yet.
    """
    if work.kind == "loop":
        return [lower_loop(work, flush=flush)] if work.points else []
    if work.kind == "reduction":
        return lower_reduction(work, flush=flush)
    raise _refused(work)


def _refused(work: Work) -> Exception:
    name = work.spec.operation.name if isinstance(work.spec, Call) else work.label
    return refusal(
        "ptx", f"no kernel computes {name} yet", where=work.line or "", found=f"{work.kind} {work.label}",
        expected="an operation of the table in docs/gpu.md", hint="`device: cpu` computes it.",
    )  # fmt: skip
