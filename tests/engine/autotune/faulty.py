"""Candidates that fail in every way that the tuner must survive, as a template beside that of matrix products."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trainer.engine.targets.cpu import templates
from trainer.engine.targets.cpu.templates.contraction import MatmulKernel, MatmulParameters

KEPT: list[np.ndarray] = []
"""Holds on to memory, as a compiler that goes wrong would."""

FOREIGN = "llvm.aarch64.hint(i32 1)" if platform.machine() in ("x86_64", "AMD64") else "llvm.x86.sse2.pause()"
"""An intrinsic of another processor: LLVM ends the process when it can't select it."""

ONE_BY_ONE = MatmulParameters(1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Faulty:
    """A candidate that fails as `kind` says."""

    kind: str


REASONS = {
    "foreign instruction": "aborted",
    "trap": "aborted",
    "far write": "out_of_bounds",
    "near write": "out_of_bounds",
    "written input": "out_of_bounds",
    "far read": "out_of_bounds",
    "endless loop": "timeout",
    "wrong result": "wrong",
    "unwritten result": "wrong",
    "too much memory": "memory",
    "no kernel": "failed",
}

_BODIES = {
    "foreign instruction": f"  call void @{FOREIGN}\n  ret void",
    "trap": "  call void @llvm.trap()\n  unreachable",
    "far write": "  %p = getelementptr i8, ptr %output, i64 65536\n  store i8 0, ptr %p\n  ret void",
    "far read": "  %p = getelementptr i8, ptr %output, i64 65536\n  %v = load volatile i8, ptr %p\n  ret void",
    "written input": "  %a = load ptr, ptr %arguments\n  store i8 0, ptr %a\n  ret void",
    "endless loop": "  br label %again\nagain:\n  store volatile i8 0, ptr %output\n  br label %again",
    "unwritten result": "  ret void",
}


class FaultyKernel(MatmulKernel):
    """The template's kernel, or one that fails."""

    def __init__(self, spec: Any, parameters: Any) -> None:
        self.fault = parameters.kind if isinstance(parameters, Faulty) else ""
        super().__init__(spec, ONE_BY_ONE if self.fault else parameters)

    def render(self, name: str) -> str:
        """The module of the kernel."""
        if not self.fault:
            return super().render(name)
        if self.fault == "no kernel":
            raise ValueError("nothing to render")
        if self.fault == "too much memory":
            KEPT.append(np.zeros(3 << 30, np.uint8))  # no page of it is touched: only a limit stops it
        if self.fault == "wrong result":
            return MatmulKernel(replace(self.spec, depth=self.spec.depth - 1), ONE_BY_ONE).render(name)
        body = _BODIES.get(self.fault)
        if self.fault == "near write":
            elements = self.spec.rows * self.spec.columns
            body = f"  %p = getelementptr float, ptr %output, i64 {elements}\n  store float 0.0, ptr %p\n  ret void"
        return f"""
declare void @{FOREIGN.replace("i32 1", "i32")}
declare void @llvm.trap()
define void @{name}(ptr noalias %arguments, i64 %task, ptr noalias %scratch) {{
  %word = getelementptr i64, ptr %arguments, i64 2
  %output = load ptr, ptr %word
{body or "  ret void"}
}}
"""


TEMPLATE = replace(templates.MATMUL, kernel=FaultyKernel)
