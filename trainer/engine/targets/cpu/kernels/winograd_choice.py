"""The choice of Winograd's algorithm in the numerics class "fast": only the shape decides it, and thereby the bits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

from trainer.engine.graph.dtypes import float32
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Correlation, Pair, correlation
from trainer.engine.targets.cpu.kernels.winograd_transforms import PAIRS, Algorithm

LEAST_CHANNELS = 16
"""Minimum number of inputs and outputs: with fewer, the products are too little work for their transforms."""

MOST_TAPS = max(PAIRS) - 1
"""Maximum number of taps along an axis: two outputs are the least that save products."""

LEAST_TILES = 16
"""Minimum number of tiles of a sum: with fewer, transform errors exceed the stated bound of the weight gradient."""

TRANSFORM_COST = 20
WEIGHT_COST = 90
"""Costs of one transformed input or output, and of one transformed weight, in multiply-adds.

A transformed weight is written, and read by every task: 512x512 of them pay off only from sixteen 7x7 images on.
"""

PER_ITEM_IMAGES = 16
"""The batch size assumed if bits must not depend on the batch. Programs that only read weights transform them once, so
the algorithm of a large batch also pays off for one image.
"""

SHARED_CHANNELS = 64
"""Channels of one operand that share a transform of the other one in the weight gradient."""


@dataclass(frozen=True, slots=True)
class WinogradSpec:
    """A direction of `convolution`, computed by F(outputs x outputs, taps x taps).

    With stride s, a convolution is the sum of s x s convolutions of stride 1, one for each of the image's `parts`:
    every s-th row and column, from each of the first s. Their windows have every s-th tap. The input gradient's phases
    (`geometry`) are convolutions of stride 1, too; they share windows of dy, and their outputs are shifted.
    """

    convolution: ConvolutionSpec
    outputs: int

    @property
    def algorithm(self) -> Algorithm:
        return Algorithm(self.outputs, taps(self.convolution))

    @property
    def points(self) -> int:
        """Products of a Winograd tile along an axis."""
        return self.algorithm.points

    @property
    def form(self) -> Correlation:
        """The correlation whose outputs are cut into tiles: for the weight gradient, that of the forward pass."""
        plain = self.convolution
        return correlation(replace(plain, direction="forward") if plain.direction == "weight_gradient" else plain)

    @property
    def parts(self) -> tuple[Pair, ...]:
        """First row and column of each part of the input."""
        rows, columns = (1, 1) if self.convolution.direction == "input_gradient" else self.convolution.strides
        return tuple(product(range(rows), range(columns)))

    @property
    def panels(self) -> int:
        """Vectors of outputs, of all phases."""
        form = self.form
        return len(form.phases) * form.packing.panels

    @property
    def grid(self) -> Pair:
        """Winograd tiles of an image along rows and columns."""
        form = self.form
        return -(-form.rows.windows // self.outputs), -(-form.columns.windows // self.outputs)

    @property
    def tiles(self) -> int:
        """Winograd tiles of all images."""
        return self.convolution.images * math.prod(self.grid)


def taps(spec: ConvolutionSpec) -> int:
    """Maximum number of taps along an axis that a part of the input has, or a phase of the input gradient."""
    return -(-spec.window[0] // spec.strides[0])


def is_possible(spec: ConvolutionSpec) -> bool:
    """Whether the Winograd templates support the convolution."""
    return (
        spec.dtype is float32
        and spec.window[0] == spec.window[1]
        and spec.strides in ((1, 1), (2, 2))
        and 2 <= taps(spec) <= MOST_TAPS
        and spec.dilation == (1, 1)
        and spec.groups == 1
        and not spec.pairs
    )


def algorithm(spec: ConvolutionSpec, *, per_item: bool = False) -> WinogradSpec | None:
    """The algorithm that the class "fast" uses, or None for the direct one. A function of the shape alone.

    With `per_item` it does not depend on the number of images, which is assumed to be `PER_ITEM_IMAGES`.

    Costs are in multiply-adds, including those of tiles beyond the image, plus a few for every transformed value; the
    costs of transformed weights are spread over the images.
    """
    if not is_possible(spec) or min(spec.channels, spec.filters) < LEAST_CHANNELS:
        return None
    counted = replace(spec, images=PER_ITEM_IMAGES) if per_item else spec
    form, chosen = WinogradSpec(counted, 2).form, None
    sums = [sum(phase.count * phase.taps for phase in axis.phases) for axis in (form.rows, form.columns)]
    best = float(form.images * math.prod(sums) * form.inputs * form.outputs)
    for points in PAIRS:
        if (outputs := points + 1 - taps(spec)) < 2:
            continue
        candidate = WinogradSpec(counted, outputs)
        cost = _cost(candidate, candidate.form)
        if cost < best:
            best, chosen = cost, WinogradSpec(spec, outputs)
    return chosen


def _cost(spec: WinogradSpec, form: Correlation) -> float:
    points, tiles, parts, phases = spec.points**2, spec.tiles, len(spec.parts), len(form.phases)
    weights = parts * phases * form.inputs * form.outputs
    if spec.convolution.direction == "weight_gradient":
        if tiles < LEAST_TILES:
            return math.inf
        again = form.inputs * -(-form.outputs // SHARED_CHANNELS) + form.outputs * -(-form.inputs // SHARED_CHANNELS)
        return points * (tiles * weights + tiles * parts * again * TRANSFORM_COST + weights * WEIGHT_COST)
    values = tiles * (parts * form.inputs + phases * form.outputs) * TRANSFORM_COST
    return points * (tiles * weights + values + weights * WEIGHT_COST)
