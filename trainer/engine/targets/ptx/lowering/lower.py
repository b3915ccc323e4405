"""The launches of one item of work, by its kind; what no kernel computes yet is refused by name."""

from __future__ import annotations

from trainer import TrainerError
from trainer.engine.program.work import Call, Work
from trainer.engine.targets.ptx.launch import Launch
from trainer.engine.targets.ptx.lowering.loops import lower_loop
from trainer.engine.targets.ptx.lowering.products import lower_matmul
from trainer.engine.targets.ptx.lowering.reductions import lower_reduction


def lower(work: Work, *, flush: bool) -> list[Launch]:
    """The launches of an item, in order. With `flush` subnormal float32 numbers count as zeros.

    Raises `TrainerError` for an operation that has no kernel yet.
    """
    if work.kind == "loop":
        return [lower_loop(work, flush=flush)] if work.points else []
    if work.kind == "reduction":
        return lower_reduction(work, flush=flush)
    if isinstance(work.spec, Call) and work.spec.operation.name == "matmul":
        return lower_matmul(work, flush=flush)
    raise _refused(work)


def _refused(work: Work) -> TrainerError:
    name = work.spec.operation.name if isinstance(work.spec, Call) else work.label
    return TrainerError(
        f"no kernel for NVIDIA GPUs computes {name} yet",
        where=work.line,
        found=f"{name} ({work.kind})",
        expected="an operation of the table in docs/gpu.md",
        hint="Compute it on `device: cpu`.",
    )
