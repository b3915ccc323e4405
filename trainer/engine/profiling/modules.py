"""Which module a launch works for, as far as the states that it touches say."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.program.launch import Buffer, Launch
from trainer.engine.targets.cpu.kernels.contraction import MatmulSpec
from trainer.engine.targets.cpu.kernels.depthwise import DepthwiseSpec
from trainer.engine.targets.cpu.kernels.few_outputs import FewOutputsSpec
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec

_CONTRACTIONS = (MatmulSpec, ConvolutionSpec, DepthwiseSpec, FewOutputsSpec, WinogradSpec)
_MOVES = ("pack", "relayout", "transform weights")
_FOR_AN_UPDATE = ("convolution_weight_gradient", "combine")


def modules_of(launches: Sequence[Launch]) -> list[str]:
    """For each launch the path of the one module whose parameters or buffers it reads or writes, directly or packed;
    "" where there is none, or where there are several.

    A contraction works for the module of its operands, whatever is fused into its epilogue; a weight gradient for the
    module whose update reads it.
    """
    parts = [(index, part) for index, launch in enumerate(launches) for part in launch.parts or (launch,)]
    owners: dict[Buffer, set[str]] = {}
    found: list[set[str]] = []
    for _, part in parts:
        paths = set().union(*(_own(buffer) | owners.get(buffer, set()) for buffer in _operands(part)))
        if part.label.startswith(_MOVES):
            owners.update((buffer, paths) for buffer in part.writes)
        found.append(paths)
    readers: dict[Buffer, set[str]] = {}
    for (_, part), paths in reversed(list(zip(parts, found, strict=True))):
        if part.label.startswith(_FOR_AN_UPDATE) and not paths:
            paths |= set().union(*(readers.get(buffer, set()) for buffer in part.writes))
        for buffer in part.reads:
            readers.setdefault(buffer, set()).update(paths)
    together: list[set[str]] = [set() for _ in launches]
    for (index, _), paths in zip(parts, found, strict=True):
        together[index] |= paths
    return [next(iter(paths)) if len(paths) == 1 else "" for paths in together]


def _operands(launch: Launch) -> tuple[Buffer, ...]:
    key = launch.source.key
    is_contraction = isinstance(key, tuple) and key and isinstance(key[0], _CONTRACTIONS)
    return launch.reads[:2] if is_contraction else (*launch.reads, *launch.writes)


def _own(buffer: Buffer) -> set[str]:
    name = buffer.storage.name if buffer.storage is not None else ""
    path = "" if name.startswith("input ") else name.rpartition(".")[0]
    return {path} if path else set()
