"""Kernels as objects for machines that are not here, and what an ELF object needs from outside."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence

from trainer.engine.program.work import KernelSource
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.loaded_kernels import Kernel, Kernels, Progress
from trainer.engine.targets.cpu.lowering.launch import Launch
from trainer.engine.targets.cpu.machine import NARROW

TARGETS = {
    "aarch64 NEON": native.Target("+neon", "generic", "aarch64-unknown-linux-gnu"),
    "x86-64 AVX2": native.Target("", "x86-64-v3", "x86_64-unknown-linux-gnu"),
}
ELF_MACHINES = {"aarch64 NEON": 183, "x86-64 AVX2": 62}  # EM_AARCH64, EM_X86_64 of the System V ABI
LINKERS_OWN = {"_GLOBAL_OFFSET_TABLE_"}
"""What no library defines: the linker makes it while it links."""


class RecordingKernels(Kernels):
    """Keeps the source of every kernel that a program was made of."""

    def __init__(self, target: native.Target) -> None:
        super().__init__(target)
        self.sources: dict[KernelSource, str] = {}

    def of(self, launches: Sequence[Launch], progress: Progress | None = None) -> list[Kernel]:
        self.sources.update({launch.source: launch.label for launch in launches})
        return super().of(launches, progress)


def recording_device() -> tuple[CpuDevice, RecordingKernels]:
    """A device that runs here, but with the parameters that a machine of narrow vectors would choose."""
    device = CpuDevice(threads=2, narrow=True, choose=functools.partial(defaults.choose, machine=NARROW))
    device.kernels = kernels = RecordingKernels(native.host_target(narrow=True))
    return device, kernels


def wanted_from_outside(ir: str, target: str) -> set[str]:
    """Compile a module for `target`; the symbols that its object does not define itself."""
    machine, undefined = elf_symbols(native.compile_object(ir, TARGETS[target]))
    assert machine == ELF_MACHINES[target]
    return undefined - LINKERS_OWN


def elf_symbols(code: bytes) -> tuple[int, set[str]]:
    """(machine, names of undefined symbols) of a little-endian 64-bit ELF object, after the System V ABI."""
    assert code[:6] == b"\x7fELF\x02\x01"
    (machine,) = struct.unpack_from("<H", code, 18)
    (section_table,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, section_table + size * number) for number in range(count)]
    names: set[str] = set()
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for place in range(offset + entry, offset + length, entry):  # the first entry is empty
            name, _, _, section, _, _ = struct.unpack_from("<IBBHQQ", code, place)
            if section == 0:  # SHN_UNDEF
                start = strings + name
                names.add(code[start : code.index(b"\0", start)].decode())
    return machine, names
