"""Describes a compiled program as text: `describe_program` at three levels, and the environment variable that prints
the description when a program is compiled.

1: one line per program. 2: also its launches, in order, with barriers, buffers and sizes. 3: also kernel bodies.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainer import TrainerError
from trainer.engine.program.layout_copies import layout_copies
from trainer.engine.program.work import Buffer
from trainer.engine.targets.cpu.barriers import barriers
from trainer.engine.targets.cpu.kernels.chained import ChainedKernel
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.cpu.kernels.repeated import RepeatedKernel
from trainer.engine.targets.cpu.lowering.launch import Launch

DEBUG_VARIABLE = "TRAINER_DEBUG"
LEVELS = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Compilation:
    """Statistics of a compilation: objects compiled, objects read from the cache on disk, and total time."""

    compiled: int
    cached: int
    milliseconds: float


def debug_level() -> int:
    """Returns the level in TRAINER_DEBUG, or 0 if it is not set.

    Raises:
        TrainerError: the value is not a level.
    """
    value = os.environ.get(DEBUG_VARIABLE, "")
    if value and value not in map(str, LEVELS):
        raise TrainerError(f"{DEBUG_VARIABLE} is no level", found=repr(value), expected="0, 1, 2 or 3")
    return int(value or 0)


def report(program: Any) -> None:
    """Prints the description of a newly compiled program to standard error, at the level in TRAINER_DEBUG."""
    level = debug_level()
    if level:
        print(describe_program(program, level), file=sys.stderr, flush=True)


def describe_program(program: Any, level: int) -> str:
    """Returns a compiled program as text; the module's docstring lists the levels."""
    if not hasattr(program, "launches"):
        return f"program: interpreted node by node ({type(program).__name__})"
    return "\n".join(_lines(program, level)) if level else ""


def _lines(program: Any, level: int) -> Iterator[str]:
    launches: list[Launch] = program.launches
    offsets = program.memory.offsets
    flags = barriers(launches, offsets)
    yield _summary(program, sum(flags))
    if level < 2:
        return
    shown: set[Any] = set()
    for index, (launch, waits) in enumerate(zip(launches, flags, strict=True)):
        reads = ", ".join(_described(buffer, offsets) for buffer in launch.reads)
        writes = ", ".join(_described(buffer, offsets) for buffer in launch.writes)
        tasks = _count(launch.tasks, "task")
        yield f"{index:5} {'|' if waits else ' '} {launch.label} ({tasks}): {reads or 'nothing'} -> {writes}"
        for part in launch.coded():
            if launch.body:
                yield f"          {part.label} ({_count(part.tasks, 'task')})"
            if level > 2 and part.source not in shown:
                shown.add(part.source)
                yield from (f"          {line}" for line in _kernel(part.source.key))
    copies = layout_copies([launch.work for launch in launches])
    if copies:
        kinds = ", ".join(f"{count} {label}" for label, count in sorted(Counter(each.label for each in copies).items()))
        yield f"      copies for a layout alone: {kinds}, {_bytes(sum(each.nbytes for each in copies))}"
    if program.memory.peak:
        largest = sorted(program.memory.peak, key=lambda buffer: -buffer.nbytes)[:5]
        yield f"      most memory at once: {', '.join(_described(buffer, offsets) for buffer in largest)}"


def _summary(program: Any, waits: int) -> str:
    kernels = len({each.source for launch in program.launches for each in launch.coded()})
    parts = [
        "traced" if program.flush else "evaluated",
        _count(len(program.launches), "launch", "launches"),
        _count(waits, "barrier"),
        f"arena {_bytes(program.memory.size)}",
        _count(kernels, "kernel"),
    ]
    if program.device.target.numerics != "exact":
        parts.insert(1, f"numerics {program.device.target.numerics}")
    if program.device.target.bfloat16 != "pairs":
        parts.insert(1, f"bfloat16 by {program.device.target.bfloat16}")
    made: Compilation | None = program.compilation
    if made is not None:
        parts[-1] += f" ({made.compiled} compiled, {made.cached} from the cache)"
        parts.append(f"{made.milliseconds:.1f} ms")
    return f"program: {', '.join(parts)}"


def _described(buffer: Buffer, offsets: dict[Buffer, int]) -> str:
    place = f" at {offsets[buffer]}" if buffer.in_arena else ""
    return f"{buffer.label}{place} {buffer.dtype}[{buffer.size}] {_bytes(buffer.nbytes)}"


def _kernel(key: Any) -> Iterator[str]:
    """Yields a kernel's body, one line per instruction; for a template, its specification and parameters."""
    if isinstance(key, RepeatedKernel):
        key = key.kernel
    if isinstance(key, ChainedKernel):
        for part in key.kernels:
            yield from _kernel(part)
        return
    if not isinstance(key, LoopKernel):
        yield from (repr(part) for part in (key if isinstance(key, tuple) else (key,)))
        return
    for number, operand in enumerate(key.inputs):
        yield f"operand {number}: {'index' if operand.index else operand.inner} {operand.dtype}"
    for position, step in enumerate(key.body):
        arguments = [f"%{argument}" for argument in step.arguments] + [str(value) for value in step.attributes]
        yield f"%{position} = {step.operation}({', '.join(arguments)}) {step.dtype}"
    operations = key.reduction.operations if key.reduction else ("store",) * len(key.outputs)
    along = f" by {key.reduction.orientation}" if key.reduction else ""
    for (position, operand), operation in zip(key.outputs, operations, strict=True):
        yield f"{operation} %{position}{along}: {operand.inner} {operand.dtype}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
