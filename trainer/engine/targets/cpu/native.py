"""Native code: compiles textual LLVM IR to object code, keeps a verified cache of objects, and links through LLJIT.

The cache is private to the user, keyed by everything that determines the machine code (IR, features, LLVM version),
written by rename, and verified by hash before loading, because it holds native code.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from trainer import TrainerError
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import features, lookups

OBJECT = ".o"


@dataclass(frozen=True, slots=True)
class Target:
    """The machine that code is compiled for: the host, the host with fewer features, or any other, with a `triple`.

    `triple` and `name` are LLVM's ("aarch64-unknown-linux-gnu", "generic"); "" is the host's triple, or no name.
    """

    features: str
    name: str = ""
    triple: str = ""

    @property
    def key(self) -> str:
        return f"{llvm.llvm_version_info}|{self.triple or llvm.get_process_triple()}|{self.name}|{self.features}"


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _initialise_others() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.cache
def host_features() -> dict[str, bool]:
    """The host's features that kernels may use, by LLVM's names; `TRAINER_CPU_FEATURES` limits them.

    The CPU's *name* can be wrong in virtual machines and is not used.
    """
    _initialise()
    found = features.limited(dict(llvm.get_host_cpu_features()), os.environ.get(features.FEATURES_VARIABLE, ""))
    if found.get("amx-tile") and not features.tiles_permitted():
        return features.without_tiles(found)
    return found


def check_host() -> None:
    """Raises TrainerError if the host lacks fused multiply-add in vectors of 256 bits or NEON, which all kernels need.

    Without it LLVM would call a library function for each product, which no kernel may do.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return
    missing = [name for name in ("avx2", "fma") if not host_features().get(name)]
    if missing:
        raise TrainerError(
            "the cpu device can't run on this processor",
            found=f"no {' and no '.join(missing)}",
            expected="AVX2 and FMA (x86-64 processors since about 2013 have them)",
            hint="`device: reference` works everywhere, slowly.",
        )


@functools.cache
def host_target(narrow: bool = False) -> Target:
    """Returns the host's target; with `narrow`, limited to the features of AVX2 (on ARM: unchanged)."""
    usable = host_features()
    if narrow and usable.get("avx2"):
        usable = features.limited(usable, "avx2")
    words = [f"{'+' if present else '-'}{name}" for name, present in sorted(usable.items())]
    if usable.get("avx512f"):
        words.append("-prefer-256-bit")
    return Target(",".join(words))


class _Workplace(threading.local):
    """The LLVM context and target machines of one thread; neither may be shared between threads."""

    def __init__(self) -> None:
        self.context = llvm.create_context()
        self.machine = functools.lru_cache(maxsize=4)(_machine)


def _machine(target: Target) -> llvm.TargetMachine:
    if target.triple:
        _initialise_others()
    _initialise()
    triple = llvm.Target.from_triple(target.triple or llvm.get_process_triple())
    return triple.create_target_machine(cpu=target.name, features=target.features, opt=3, reloc="pic", jit=True)


_workplace = _Workplace()


def compile_object(ir: str, target: Target | None = None) -> bytes:
    """Returns the object code of a module of textual IR, from the cache if possible."""
    target = target or host_target()
    key = object_key(ir, target)
    cached = cached_object(key)
    if cached is not None:
        return cached
    with llvm.parse_assembly(_for_target(ir, target), _workplace.context) as module:
        module.verify()
        code = _emit(_workplace.machine(target), module)
    disk_cache.keep(key, code, OBJECT)
    _count("compiled")
    return code


def _emit(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """Like `machine.emit_object(module)`, without llvmlite's lock around all of LLVM: threads emit at the same time.

    LLVM needs a separate context and machine for each thread, but no lock. The library behind the lock is private to
    llvmlite: with a version that stores it elsewhere, threads emit one after the other.
    """
    with ffi.OutputString() as problem:
        library = getattr(ffi.lib, "_lib", ffi.lib)
        buffer = library.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, problem)
        if not buffer:
            raise RuntimeError(str(problem))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@functools.lru_cache(maxsize=256)
def problem_of(ir: str, name: str, pointers: int) -> str | None:
    """Returns why a module does not define a void function `name` of `pointers` pointers and an i64, or None."""
    try:
        with llvm.parse_assembly(_for_target(ir, host_target())) as module:
            module.verify()
            functions = {function.name: function for function in module.functions if not function.is_declaration}
            if name not in functions:
                return f"functions: {', '.join(functions) or 'none'}"
            found = str(functions[name].global_value_type)
    except RuntimeError as error:
        return str(error).strip()
    expected = f"void ({', '.join(['ptr'] * pointers + ['i64'])})"
    return None if found == expected else f"@{name} of type {found}, where the inputs ask for {expected}"


def object_key(ir: str, target: Target) -> str:
    """Returns the key of a module's object code in the cache."""
    return hashlib.sha256(f"{target.key}\n{_for_target(ir, target)}".encode()).hexdigest()


def cached_object(key: str) -> bytes | None:
    """Returns the object code that is cached under a key, or None."""
    code = disk_cache.kept(key, OBJECT)
    if code is not None:
        _count("cached")
    return code


_counts = {"compiled": 0, "cached": 0}
_counting = threading.Lock()


def _count(what: str) -> None:
    with _counting:
        _counts[what] += 1


def object_counts() -> tuple[int, int]:
    """Returns the number of objects that this process has compiled, and the number that it has read from the cache."""
    return _counts["compiled"], _counts["cached"]


def assembly(ir: str, target: Target | None = None) -> str:
    """Returns the assembly text of a module, for inspecting a kernel."""
    target = target or host_target()
    with llvm.parse_assembly(_for_target(ir, target)) as module:
        return str(_workplace.machine(target).emit_assembly(module))


def _for_target(ir: str, target: Target) -> str:
    """Returns the module with its lookups lowered for the target, and a workaround for an LLVM bug on AVX-512."""
    triple, names = target.triple or llvm.get_process_triple(), target.features.split(",")
    spelled = lookups.spelled(ir, triple, names)
    return _fenced(spelled) if "+avx512f" in names else spelled


_COPYSIGN = re.compile(r"^( *)(%\S+) = (call (.+) @llvm\.copysign\.(\w+)\(.*\))$", re.MULTILINE)


def _fenced(ir: str) -> str:
    """Returns the module with a fence after each copysign.

    LLVM 22 merges a copysign and the select that follows it into one masked vpternlog, and for some orders of the
    operands uses the truth table of another order.
    """
    if "@llvm.copysign" not in ir:
        return ir  # searching all lines takes half as long as LLVM takes to parse them
    kinds = {(found[4], found[5]) for found in _COPYSIGN.finditer(ir)}
    fence = r"\1\2.unfenced = \3\n\1\2 = call \4 @llvm.arithmetic.fence.\5(\4 \2.unfenced)"
    declared = (f"declare {kind} @llvm.arithmetic.fence.{name}({kind})\n" for kind, name in sorted(kinds))
    return _COPYSIGN.sub(fence, ir) + "".join(declared)


@dataclass
class Library:
    """Loaded objects and the addresses of their functions; unloads when it is collected."""

    addresses: dict[str, int]
    _tracker: object = field(repr=False)

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


@functools.cache
def _jit() -> llvm.LLJIT:
    _initialise()
    return llvm.create_lljit_compiler(_machine(host_target()))


_library_count = 0


def link(objects: Mapping[str, bytes], name: str = "kernels", exports: Sequence[str] | None = None) -> Library:
    """Links and loads objects together; `objects` maps the function that each exports to its code (or pass `exports`).

    No object may use the symbols of another.
    """
    global _library_count
    _library_count += 1
    builder = llvm.JITLibraryBuilder()
    symbols = list(objects if exports is None else exports)
    for code in objects.values():
        builder.add_object_img(code)
    for symbol in symbols:
        builder.export_symbol(symbol)
    tracker = builder.link(_jit(), f"{name}_{_library_count}")
    return Library({symbol: tracker[symbol] for symbol in symbols}, tracker)
