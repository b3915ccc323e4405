"""Rebuilds the code of a kernel from its key alone: a program on disk stores only the keys of kernels."""

from __future__ import annotations

from typing import Any

from trainer.engine.program.work import KernelSource
from trainer.engine.targets.cpu.kernels import chained, moments, repeated
from trainer.engine.targets.cpu.kernels.chained import ChainedKernel
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.cpu.kernels.repeated import RepeatedKernel
from trainer.engine.targets.cpu.lowering.loops import code_of


def source_of(key: Any) -> KernelSource:
    """The source of a key: a loop, a template as (specification, parameters, kernel), or an object with `render`."""
    match key:
        case LoopKernel():
            return code_of(key)
        case ChainedKernel():
            parts = [code_of(kernel).render for kernel in key.kernels]
            return KernelSource(key, lambda name: chained.render(key, parts, name))
        case RepeatedKernel():
            return KernelSource(key, lambda name: repeated.render(key, code_of(key.kernel).render, name))
        case ("moments", dtype):
            return KernelSource(key, lambda name: moments.render_merge(dtype, name))
        case ("repeat", *_):
            return KernelSource(key, _no_code)
        case (spec, parameters, kernel):
            return KernelSource(key, lambda name: kernel(spec, parameters).render(name))
    return KernelSource(key, key.render)


def _no_code(name: str) -> str:
    raise AssertionError("a repeat has no code: its body has")
