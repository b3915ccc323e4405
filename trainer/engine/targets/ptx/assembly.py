"""Compiles LLVM IR to PTX, with a cache keyed by the IR, the processor and LLVM's version."""

from __future__ import annotations

import functools
import hashlib

import llvmlite.binding as llvm

from trainer.engine.targets import disk_cache

PROCESSOR = "sm_90a"
"""The default target processor: an H100."""

VERSIONS = {"sm_100a": "ptx86"}
"""PTX versions of processors that need a later one than `VERSION`."""

VERSION = "ptx83"
"""The default PTX version, which drivers since CUDA 12.3 accept."""

PTX = ".ptx"
_OPTIMIZATION = 2


@functools.cache
def _machine(processor: str) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    return target.create_target_machine(cpu=processor, features=f"+{version(processor)}", opt=3)


def version(processor: str) -> str:
    """The PTX version for a processor."""
    return VERSIONS.get(processor, VERSION)


def assembly_key(ir: str, processor: str) -> str:
    """The cache key of a module's PTX."""
    return hashlib.sha256(
        f"{llvm.llvm_version_info}|{processor}|{version(processor)}|{_OPTIMIZATION}\n{ir}".encode()
    ).hexdigest()


def assembled(ir: str, processor: str = PROCESSOR) -> str:
    """Returns the PTX of a module of LLVM IR, from the cache if it is there.

    LLVM's usual passes run on the module: they inline functions and promote arrays with known indices to registers.
    None of them reorders arithmetic on floats.
    """
    key = assembly_key(ir, processor)
    cached = disk_cache.kept(key, PTX)
    if cached is not None:
        return cached.decode()
    machine = _machine(processor)
    with llvm.parse_assembly(ir) as module:
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=_OPTIMIZATION)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        text = str(machine.emit_assembly(module))
    disk_cache.keep(key, text.encode(), PTX)
    return text
