"""Where the numerics class "fast" uses Winograd's algorithm: decided by the shape alone, so that its bits are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trainer.engine.graph.dtypes import float32
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Correlation, correlation
from trainer.engine.targets.cpu.kernels.winograd_transforms import Algorithm

LEAST_CHANNELS = 16
"""Fewer inputs or outputs leave the products too little work for their transforms."""

LEAST_TILES = 16
"""Fewer of them to a sum leave the weight gradient's errors to the transforms, beyond the stated bound."""

TRANSFORM_COST = 20
WEIGHT_COST = 90
"""Of one transformed input or output, and of one transformed weight, in multiply-adds.

A transformed weight is written, and read by every task: 512x512 of them pay only from sixteen 7x7 images on.
"""

PER_ITEM_IMAGES = 16
"""The batch that decides for all where bits may not depend on it. Programs that only read weights transform them once,
so the algorithm of a large batch also pays for one image.
"""

SHARED_CHANNELS = 64
"""The weight gradient transforms its operands again for each so many channels of the other one."""


@dataclass(frozen=True, slots=True)
class WinogradSpec:
    """A direction of `convolution` by F(outputs x outputs, 3x3)."""

    convolution: ConvolutionSpec
    outputs: int

    @property
    def algorithm(self) -> Algorithm:
        return Algorithm(self.outputs)

    @property
    def points(self) -> int:
        """Products of a Winograd tile along an axis."""
        return self.algorithm.points

    @property
    def form(self) -> Correlation:
        """The correlation whose outputs are cut into tiles: of the weight gradient the forward pass."""
        plain = self.convolution
        return correlation(replace(plain, direction="forward") if plain.direction == "weight_gradient" else plain)

    @property
    def grid(self) -> tuple[int, int]:
        """Winograd tiles of an image along rows and columns."""
        form = self.form
        return -(-form.rows.output_extent // self.outputs), -(-form.columns.output_extent // self.outputs)

    @property
    def tiles(self) -> int:
        """Winograd tiles of all images."""
        return self.convolution.images * math.prod(self.grid)


def is_possible(spec: ConvolutionSpec) -> bool:
    """Whether the templates here can compute it."""
    return (
        spec.dtype is float32
        and spec.window == (3, 3)
        and spec.strides == spec.dilation == (1, 1)
        and spec.groups == 1
        and not spec.pairs
    )


def algorithm(spec: ConvolutionSpec, *, per_item: bool = False) -> WinogradSpec | None:
    """Which algorithm the class "fast" uses; None: the direct one. A function of the shape alone.

    With `per_item` the number of images has no part in it: it is taken for that of `PER_ITEM_IMAGES`.

    Costs are multiply-adds, those of tiles beyond the image included, and for every transformed value what a handful
    of them take; the weights' are spread over the images.
    """
    if not is_possible(spec) or min(spec.channels, spec.filters) < LEAST_CHANNELS:
        return None
    counted = replace(spec, images=PER_ITEM_IMAGES) if per_item else spec
    form, chosen = WinogradSpec(counted, 2).form, None
    best = 9.0 * form.images * form.rows.output_extent * form.columns.output_extent * form.inputs * form.outputs
    for outputs in (2, 4):
        candidate = WinogradSpec(counted, outputs)
        cost = _cost(candidate, candidate.form)
        if cost < best:
            best, chosen = cost, WinogradSpec(spec, outputs)
    return chosen


def _cost(spec: WinogradSpec, form: Correlation) -> float:
    points, tiles, weights = spec.algorithm.points**2, spec.tiles, form.inputs * form.outputs
    if spec.convolution.direction == "weight_gradient":
        if tiles < LEAST_TILES:
            return math.inf
        again = form.inputs * -(-form.outputs // SHARED_CHANNELS) + form.outputs * -(-form.inputs // SHARED_CHANNELS)
        return points * (tiles * weights + tiles * again * TRANSFORM_COST + weights * WEIGHT_COST)
    values = tiles * (form.inputs + form.outputs) * TRANSFORM_COST
    return points * (tiles * weights + values + weights * WEIGHT_COST)
