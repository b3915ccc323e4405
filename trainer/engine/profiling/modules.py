"""The module to which a launch belongs, derived from the states that it touches."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.program.work import Buffer, Work
from trainer.engine.targets.cpu.lowering.launch import Launch

_MOVES = ("pack", "relayout", "transform weights")
_FOR_AN_UPDATE = ("convolution_weight_gradient", "combine")


def modules_of(launches: Sequence[Launch]) -> list[str]:
    """Returns for each launch the path of the one module whose parameters or buffers it reads or writes, directly or
    packed; "" if none or several match.

    A contraction belongs to the module of its operands, regardless of operations fused into its epilogue; a weight
    gradient belongs to the module whose update reads it.
    """
    parts = [(index, part) for index, launch in enumerate(launches) for part in launch.work.parts or (launch.work,)]
    owners: dict[Buffer, set[str]] = {}
    found: list[set[str]] = []
    for _, part in parts:
        paths = set().union(*(_own(buffer) | owners.get(buffer, set()) for buffer in _operands(part)))
        if part.label.startswith(_MOVES):
            owners.update((buffer, paths) for buffer in part.targets)
        found.append(paths)
    readers: dict[Buffer, set[str]] = {}
    for (_, part), paths in reversed(list(zip(parts, found, strict=True))):
        if part.label.startswith(_FOR_AN_UPDATE) and not paths:
            paths |= set().union(*(readers.get(buffer, set()) for buffer in part.targets))
        for buffer in part.sources:
            readers.setdefault(buffer, set()).update(paths)
    together: list[set[str]] = [set() for _ in launches]
    for (index, _), paths in zip(parts, found, strict=True):
        together[index] |= paths
    return [next(iter(paths)) if len(paths) == 1 else "" for paths in together]


def _operands(work: Work) -> tuple[Buffer, ...]:
    return work.sources[:2] if work.kind == "contraction" else work.buffers


def _own(buffer: Buffer) -> set[str]:
    name = buffer.storage.name if buffer.storage is not None else ""
    path = "" if name.startswith("input ") else name.rpartition(".")[0]
    return {path} if path else set()
