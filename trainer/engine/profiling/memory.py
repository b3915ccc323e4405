"""A program's memory: the arena, the buffers alive at its peak, and the copies that only change a layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainer import TrainerError
from trainer.engine.profiling.modules import modules_of
from trainer.engine.program.layout_copies import LayoutCopy, layout_copies
from trainer.engine.program.work import Buffer, place_of
from trainer.engine.targets.cpu.lowering.launch import Launch
from trainer.engine.tracing.trace import Traced


@dataclass(frozen=True, slots=True)
class Held:
    """A buffer alive at the peak, from launch `first` to `last`; launch `made_by` writes it, for `module` (or "")."""

    label: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    first: int
    last: int
    made_by: str
    module: str


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Memory of one program in bytes.

    arena: memory for values between launches; all programs of a device share one arena. peak: maximum bytes alive at
    once, at launch `launch`; the arena is larger by unusable gaps. states: parameters, moments and other states that
    the program touches. results: one set of results. kept: values computed once while states are unchanged, such as
    packed weights of an evaluation. scratch: maximum bytes that the kernels of one thread use.
    """

    arena: int
    peak: int
    launch: int
    launch_label: str
    held: tuple[Held, ...]
    states: int
    results: int
    kept: int
    scratch: int
    layout_copies: tuple[LayoutCopy, ...]

    def __str__(self) -> str:
        lines = [
            f"memory: arena {_mb(self.arena)}, {_mb(self.peak)} alive at launch {self.launch} ({self.launch_label}); "
            f"states {_mb(self.states)}, results {_mb(self.results)}, kept {_mb(self.kept)}, "
            f"scratch {_mb(self.scratch)} a thread"
        ]
        for each in sorted(self.held, key=lambda held: -held.nbytes):
            by = f"{each.made_by} in {each.module}" if each.module else each.made_by
            size = "x".join(map(str, each.shape)) or "scalar"
            lives = f"launches {each.first}-{each.last}"
            lines.append(f"  {_mb(each.nbytes)} {each.label} {each.dtype} {size}, {lives}: {by}")
        total = sum(each.nbytes for each in self.layout_copies)
        again = sum(each.repeats for each in self.layout_copies)
        repeats = f", {again} of them of what was copied before" if again else ""
        lines.append(f"copies for a layout alone: {len(self.layout_copies)}, {_mb(total)}{repeats}")
        for copy in self.layout_copies:
            lines.append(f"  launch {copy.launch}: {copy.label} of {copy.of}, {_mb(copy.nbytes)}: {copy.reason}")
        return "\n".join(lines)


def memory_report(traced: Traced[..., Any]) -> MemoryReport:
    """Returns the memory of the program that was compiled last for a traced step.

    Raises:
        TrainerError: the step has not been called yet, or runs on the reference device, which plans no memory.
    """
    programs = [program for program in traced.programs if hasattr(program, "memory")]
    if not programs:
        raise TrainerError(
            "there is no memory plan to report",
            found=f"{len(traced.programs)} programs" if traced.programs else "a step that was not called yet",
            expected="a traced step that was called on the cpu device",
        )
    return report_on(programs[-1])


def report_on(program: Any) -> MemoryReport:
    """Returns the memory of one compiled program."""
    launches: Sequence[Launch] = program.launches
    modules = modules_of(launches)
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    outside: dict[object, Buffer] = {}
    for index, launch in enumerate(launches):
        for buffer in (*launch.reads, *launch.writes):
            first.setdefault(buffer, index)
            last[buffer] = index
            if not buffer.in_arena:
                outside[place_of(buffer)] = buffer
    peak: tuple[Buffer, ...] = program.memory.peak
    moment = max((first[buffer] for buffer in peak), default=0)
    held = tuple(
        Held(
            buffer.label, repr(buffer.dtype), (buffer.size,) if buffer.shape is None else buffer.shape, buffer.nbytes,
            first[buffer], last[buffer], launches[first[buffer]].label, modules[first[buffer]],
        )
        for buffer in peak
    )  # fmt: skip
    return MemoryReport(
        arena=program.memory.size,
        peak=sum(buffer.nbytes for buffer in peak),
        launch=moment,
        launch_label=launches[moment].label if launches else "",
        held=held,
        states=sum(b.nbytes for b in outside.values() if b.storage is not None and b.storage.is_state),
        results=sum(b.nbytes for b in outside.values() if b.result is not None),
        kept=sum(b.nbytes for b in outside.values() if b.kept),
        scratch=max((launch.scratch for launch in launches), default=0),
        layout_copies=tuple(layout_copies([launch.work for launch in launches])),
    )


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count} B"
