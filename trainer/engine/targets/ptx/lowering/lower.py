"""Lowers work items to launches, by kind; an item that a GPU cannot compute within a step raises an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer import TrainerError
from trainer.engine.program.work import Call, Work
from trainer.engine.targets.ptx.launch import Launch
from trainer.engine.targets.ptx.lowering.loops import lower_loop
from trainer.engine.targets.ptx.lowering.points import POINTS, lower_points
from trainer.engine.targets.ptx.lowering.products import Precision, lower_product
from trainer.engine.targets.ptx.lowering.reductions import lower_reduction
from trainer.engine.targets.ptx.lowering.repeats import each_time


@dataclass(frozen=True, slots=True)
class Lowering:
    """Lowers work items. With `flush` subnormal float32 numbers are treated as zeros; `tensor_cores` names the operands
    that tensor cores multiply.
    """

    flush: bool = False
    tensor_cores: tuple[Precision, ...] = ()

    def launches(self, works: Sequence[Work]) -> list[Launch]:
        """Returns the launches of items in order. Raises `TrainerError` for an operation that has no kernel."""
        return [launch for work in works for launch in self._of(work)]

    def _of(self, work: Work) -> list[Launch]:
        if work.kind == "loop":
            return [lower_loop(work, flush=self.flush)] if work.points else []
        if work.kind == "reduction":
            return lower_reduction(work, flush=self.flush)
        if work.kind == "contraction":
            return lower_product(work, flush=self.flush, tensor_cores=self.tensor_cores)
        if work.kind == "repeat":
            return self.launches(list(each_time(work)))
        if isinstance(work.spec, Call) and work.spec.operation.name in POINTS:
            return lower_points(work, flush=self.flush)
        raise refusal(work)


REFUSED = {
    "host": ("it is a function on the host, for which a step cannot stop", "Call it before or after the step"),
    "custom": ("it is LLVM IR for a CPU", "Compose it of the engine's operations"),
}
"""By kind of item: why a GPU does not compute it, and what to do instead."""


def refusal(work: Work) -> TrainerError:
    """The error for an item without a kernel."""
    name = work.spec.operation.name if isinstance(work.spec, Call) else work.label
    if work.kind == "host":
        name = work.spec.attribute("call").name
    elif work.kind == "custom":
        name = work.spec.attribute("kernel").name
    why, instead = REFUSED.get(work.kind, ("", ""))
    return TrainerError(
        f"{name} has no kernel for NVIDIA GPUs{': ' if why else ''}{why}", where=work.line,
        found=f"{name} ({work.kind})", expected="an operation of the table in docs/gpu.md",
        hint=f"{instead}, or train on `device: cpu`." if instead else "Train on `device: cpu`.",
    )  # fmt: skip
