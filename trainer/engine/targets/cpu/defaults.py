"""The cost model: chooses template parameters for a contraction without running anything.

A step of the reduction of a tile of m rows by v vectors takes the maximum of four times: its multiply-adds (two per
cycle), its loads (two per cycle), reading the right operand from the second-level cache, and the latency of one
multiply-add. The tile must fit the registers with v vectors of the right operand and one broadcast. Tiles that cut the
shape without small remainders therefore win. Tasks are sized so that there are enough of them for the threads, copies
into scratch stay small, and data that a task reads again stays in the second-level cache.

The costs of tiles and tasks are in each template's file; their common parts are in `costs`.

Any choice gives the same bits: a bad choice is slow, never wrong.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from trainer.engine.graph.dtypes import float32
from trainer.engine.targets.cpu.kernels.geometry import RSCK, ConvolutionSpec
from trainer.engine.targets.cpu.machine import Machine, host_machine
from trainer.engine.targets.cpu.templates import few_outputs, template_of
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec

PACKED_ROWS, PACKED_COLUMNS = 256, 1024
"""With at least PACKED_ROWS rows of the left operand, packing the right operand pays if it has more than PACKED_COLUMNS
columns, since each row lies on its own page, or if it is twice as large as the second-level cache: a tile walks its
columns with a stride, and these lines share few sets (392x3072x768: 83 GFLOP/s on a core in place, 112 packed).
"""

NARROW_ROWS, NARROW_SHARE = 64, 8
"""Minimum rows or pixels for narrow machines to pack a right operand, because their tiles of six rows read its lines
far more often; in a product it must also be at least 1/NARROW_SHARE of the second-level cache. Zen 3, in place and
packed: 64x4096x4096 33 and 62 % of the peak, 128x784x512 59 and 77, 1x1 convolutions 50 to 68 and 75 to 91; 64x512x512
62 and 62, 32x512x512 53 and 47.
"""

FEW_PIXELS = 1
"""Maximum number of pixels whose weights stay unpacked: packing takes longer than the product (324 ms against 565)."""


def choose(spec: Any, machine: Machine | None = None) -> Any:
    """Returns the parameters to begin with."""
    return candidates(spec, machine)[0]


@functools.lru_cache(maxsize=4096)
def _ranked(spec: Any, machine: Machine) -> tuple[Any, ...]:
    return tuple(template_of(spec).candidates(spec, machine))


def candidates(spec: Any, machine: Machine | None = None) -> list[Any]:
    """Returns parameters worth trying, best first by the model; all are of one numerics class."""
    return list(_ranked(spec, machine or host_machine()))


def prefers_packed(spec: MatmulSpec | ConvolutionSpec, machine: Machine) -> bool:
    """Whether the right operand should be packed.

    Reading it in place costs as little, unless its columns are not contiguous, or a strided walk over it overflows the
    sets of the second-level cache (measured: 3x3 convolutions lose a tenth beyond 1 MB; products of 2,048 and 4,096 a
    quarter, products with few rows nothing).
    """
    if spec.pairs:
        return True
    if isinstance(spec, MatmulSpec):
        right = spec.depth * spec.columns * spec.dtype.itemsize
        if machine.is_narrow and spec.rows >= NARROW_ROWS and right >= machine.level2_bytes / NARROW_SHARE:
            return True
        is_large = right >= 2 * machine.level2_bytes
        return spec.b_strides[1] != 1 or (spec.rows >= PACKED_ROWS and (spec.columns > PACKED_COLUMNS or is_large))
    if spec.direction != "forward" or spec.weight_order != RSCK:
        return True
    weights = spec.weights * spec.dtype.itemsize
    pixels = spec.images * math.prod(spec.output_spatial)
    few = pixels <= FEW_PIXELS
    if machine.is_narrow and pixels >= NARROW_ROWS:
        return True
    return math.prod(spec.window) > 1 and weights > machine.level2_bytes and not few


def takes_prologue(spec: ConvolutionSpec) -> bool:
    """Whether a convolution, or a weight gradient, applies element-wise work to its input while reading it.

    This pays only if the window is copied into scratch anyway, for its padding: the work then costs as much as reading
    its stored result (ResNet-50 at batch 8 and pix2pix, two threads: no difference in time, 62 and 12 MB less in the
    arena). 1x1 layers would have to copy their window for it: another 49 MB less, no measurable difference in time.
    """
    if spec.direction == "forward" and few_outputs.few_outputs(spec) is not None:
        return False  # that template copies its input channel by channel
    return spec.is_padded and spec.dtype == float32 and spec.groups == 1 and not spec.pairs
