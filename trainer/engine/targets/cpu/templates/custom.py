"""Kernels that the user wrote in LLVM IR: the parameter selects one of several modules.

A module defines `void @kernel(ptr %x1, …, ptr %y, i64 %task)` on dense row-major operands, and any other functions. It
calls only its own functions and LLVM's intrinsics. Kernel: `void name(ptr arguments, i64 task, ptr scratch)`;
arguments: the addresses of the first two inputs, of the output, and of the other inputs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.primitives.custom import KERNEL
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.template import OPERANDS, Argument, Template, TemplateKernel

_DEFINED = re.compile(r"^(define\s+|@[-\w.$]+\s*=\s*(?=constant|global))(?!internal|private)", re.MULTILINE)
"""Matches where a definition of the user gets its linkage: kernels of one program are linked together."""

_OWN = "users.kernel"
"""The name of the user's function inside the kernel's module."""


@dataclass(frozen=True, slots=True)
class CustomSpec:
    """Equivalent modules, the dtypes and elements of the arrays that they read and write, and the number of tasks."""

    name: str
    sources: tuple[str, ...]
    reads: tuple[tuple[DType, int], ...]
    dtype: DType
    elements: int
    tasks: int


@dataclass(frozen=True, slots=True)
class CustomParameters:
    """The number of the module."""

    source: int


class CustomKernelCode(TemplateKernel[CustomSpec, CustomParameters]):
    """The user's function, and a function that passes the addresses to it."""

    @property
    def grid(self) -> tuple[int, ...]:
        return (self.spec.tasks,)

    def render(self, name: str) -> str:
        """The module of the kernel."""
        own = _DEFINED.sub(r"\1internal ", self.spec.sources[self.parameters.source])
        own = own.replace(f"@{KERNEL}(", f"@{_OWN}(")  # at first, `name` is the same word
        output = min(OPERANDS, len(self.spec.reads))
        places = [place + (place >= output) for place in range(len(self.spec.reads))]
        lines, values = [], []
        for place in (*places, output):
            lines.append(f"  %p{place} = getelementptr i64, ptr %arguments, i64 {place}")
            lines.append(f"  %a{place} = load ptr, ptr %p{place}")
            values.append(f"ptr %a{place}")
        call = f"  call void @{_OWN}({', '.join([*values, 'i64 %task'])})"
        entry = f"define void @{name}(ptr %arguments, i64 %task, ptr %scratch) {{"
        return "\n".join([own, entry, *lines, call, "  ret void", "}", ""])


def _operands(spec: CustomSpec) -> list[Argument]:
    """The arrays in the order of the argument block."""
    reads = [Argument(dtype, elements) for dtype, elements in spec.reads]
    return [*reads[:OPERANDS], Argument(spec.dtype, spec.elements, written=True), *reads[OPERANDS:]]


def _candidates(spec: CustomSpec, machine: Machine) -> list[CustomParameters]:
    """The modules in the user's order."""
    return [CustomParameters(source) for source in range(len(spec.sources))]


TEMPLATE = Template(CustomSpec, CustomParameters, CustomKernelCode, _operands, _candidates)
