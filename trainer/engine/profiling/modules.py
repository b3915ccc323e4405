"""Which module a launch works for, as far as the states that it touches say."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.compile.launch import Buffer, Launch
from trainer.engine.kernels.contraction import MatmulSpec
from trainer.engine.kernels.depthwise import DepthwiseSpec
from trainer.engine.kernels.geometry import ConvolutionSpec
from trainer.engine.kernels.winograd import WinogradSpec

_CONTRACTIONS = (MatmulSpec, ConvolutionSpec, DepthwiseSpec, WinogradSpec)
_MOVES = ("pack", "relayout", "transform weights")
_FOR_AN_UPDATE = ("convolution_weight_gradient", "combine")


def modules_of(launches: Sequence[Launch]) -> list[str]:
    """For each launch the path of the one module whose parameters or buffers it reads or writes, directly or packed;
    "" where there is none, or where there are several.

    A contraction works for the module of its operands, whatever is fused into its epilogue; a weight gradient for the
    module whose update reads it.
    """
    owners: dict[Buffer, set[str]] = {}
    found: list[set[str]] = []
    for launch in launches:
        buffers = _operands(launch)
        paths = set().union(*(_own(buffer) | owners.get(buffer, set()) for buffer in buffers))
        if launch.label.startswith(_MOVES):
            owners.update((buffer, paths) for buffer in launch.writes)
        found.append(paths)
    readers: dict[Buffer, set[str]] = {}
    for launch, paths in reversed(list(zip(launches, found, strict=True))):
        if launch.label.startswith(_FOR_AN_UPDATE) and not paths:
            paths |= set().union(*(readers.get(buffer, set()) for buffer in launch.writes))
        for buffer in launch.reads:
            readers.setdefault(buffer, set()).update(paths)
    return [next(iter(paths)) if len(paths) == 1 else "" for paths in found]


def _operands(launch: Launch) -> tuple[Buffer, ...]:
    key = launch.source.key
    is_contraction = isinstance(key, tuple) and key and isinstance(key[0], _CONTRACTIONS)
    return launch.reads[:2] if is_contraction else (*launch.reads, *launch.writes)


def _own(buffer: Buffer) -> set[str]:
    name = buffer.storage.name if buffer.storage is not None else ""
    path = "" if name.startswith("input ") else name.rpartition(".")[0]
    return {path} if path else set()
