"""Statistics of what a convolution stores, taken by its own tasks: a pass over memory less for each batch norm.

A reduction over pixels that follows a 1x1 convolution becomes one launch with it (`kernels.statistics`). Other
convolutions' tasks are rows of images, which the reduction's blocks would cut: theirs stay passes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainer.engine.program.launch import Address, Launch, Tunable, place_of
from trainer.engine.program.spec import LoopKernel
from trainer.engine.targets.cpu.kernels import templates
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.statistics import StatisticsSpec, is_possible


def with_statistics(launches: Sequence[Launch], choose: Callable[[Any], Any]) -> list[Launch]:
    """The launches, with every reduction that fits in the launch of the convolution before it."""
    result: list[Launch] = []
    for launch in launches:
        place = _written_by(result, launch)
        spec = None if place is None else _specification(result[place], launch)
        if place is None or spec is None or not _may_move(result[place + 1 :], launch):
            result.append(launch)
        else:
            result[place] = _joined(result[place], launch, Tunable(templates.STATISTICS, spec, choose(spec)))
    return result


def _written_by(launches: Sequence[Launch], launch: Launch) -> int | None:
    """Which of the launches, last of all, wrote what a reduction of one array reads."""
    kernel = launch.source.key
    if not isinstance(kernel, LoopKernel) or kernel.reduction is None or len(set(launch.reads)) != 1:
        return None
    return next((place for place in reversed(range(len(launches))) if launch.reads[0] in launches[place].writes), None)


def _specification(convolution: Launch, reduction: Launch) -> StatisticsSpec | None:
    """What both are as one kernel; None where the reduction isn't one over all pixels that a convolution wrote."""
    spec = convolution.tunable.spec if convolution.tunable else None
    kernel = reduction.source.key
    if not isinstance(spec, ConvolutionSpec) or not is_possible(spec):
        return None
    assert isinstance(kernel, LoopKernel) and kernel.reduction is not None
    if kernel.reduction.orientation != "column" or kernel.rank != 2 or len(kernel.inputs) != 1:
        return None
    source, words = reduction.words[0], reduction.words[1 + len(kernel.outputs) :]
    pixels, sizes = convolution.writes[0].size // spec.filters, words[:4]
    if source != Address(convolution.writes[0]) or sizes != [pixels, spec.filters, spec.filters, 1]:
        return None
    return StatisticsSpec(spec, kernel, tuple(word for word in words if isinstance(word, int)))


def _may_move(between: Sequence[Launch], launch: Launch) -> bool:
    """Whether `launch` may run before those between: none of them touches what it writes, or writes what it reads."""
    writes = {place_of(buffer) for buffer in launch.writes}
    reads = {place_of(buffer) for buffer in launch.reads}
    return not any(
        writes & {place_of(buffer) for buffer in (*other.reads, *other.writes)}
        or reads & {place_of(buffer) for buffer in other.writes}
        for other in between
    )


def _joined(convolution: Launch, reduction: Launch, tunable: Tunable) -> Launch:
    outputs = reduction.words[1 : 1 + len(reduction.writes)]
    return Launch(
        tunable.source,
        [*convolution.words, *outputs],
        tunable.tasks,
        convolution.reads,
        (*convolution.writes, *reduction.writes),
        f"{convolution.label} + {reduction.label}",
        tunable.scratch,
        tunable,
        convolution.in_place,
    )
