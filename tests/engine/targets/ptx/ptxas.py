"""`ptxas`, NVIDIA's assembler, from the wheel of the CUDA compiler: whether kernels are valid and what they need."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12")


@functools.cache
def found() -> Path | None:
    """Where the program is; None where the wheel is not installed."""
    for wheel in WHEELS:
        with suppress(importlib.metadata.PackageNotFoundError):
            files = importlib.metadata.files(wheel) or []
            return next((Path(str(file.locate())) for file in files if file.name == "ptxas"), None)
    return None


@dataclass(frozen=True)
class Usage:
    """What a kernel needs: registers of a thread; bytes of stack, of spilled registers, and of shared memory."""

    registers: int
    stack: int
    spilled: int
    shared: int


def usage(text: str, processor: str, folder: Path) -> dict[str, Usage]:
    """What each kernel of a module needs. Raises `AssertionError` with the messages for what is no valid PTX."""
    program = found()
    assert program is not None
    source = folder / "kernels.ptx"
    source.write_text(text, encoding="utf-8")
    command = [str(program), f"-arch={processor}", "-v", "-Werror", str(source), "-o", str(folder / "kernels.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kernels = {}
    for part in done.stderr.split("Compiling entry function ")[1:]:
        name = re.match(r"'([^']+)'", part)
        assert name is not None
        memory = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers, shared = re.search(r"Used (\d+) registers", part), re.search(r"(\d+) bytes smem", part)
        assert memory is not None and registers is not None, part
        stack, stores, loads = (int(number) for number in memory.groups())
        kernels[name[1]] = Usage(int(registers[1]), stack, stores + loads, int(shared[1]) if shared else 0)
    return kernels
