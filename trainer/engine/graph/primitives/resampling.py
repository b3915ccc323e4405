"""The resampling primitive: each output pixel is a weighted sum of a run of rows and a run of columns.

Average pooling of any kind, interpolation of any kind and their gradients are all of this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape, make_node
from trainer.engine.graph.primitives.table import FLOAT, register

Run = tuple[int, tuple[float, ...]]
"""The first neighbor, and the weights of all neighbors; an empty run gives 0."""
Band = tuple[int, tuple[Run, ...]]
"""The extent of an input axis, and the run of each place of the output axis: the rows of a banded matrix."""


def _shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x,), bands = inputs, attributes
    if x.ndim != 4 or any(extent != band[0] for extent, band in zip(x.shape[2:], bands, strict=True)):
        expected = f"x [N, C, {bands[0][0]}, {bands[1][0]}]"
        raise refusal("resample", "wrong shape", found=describe(inputs), expected=expected)
    for extent, runs in bands:
        if any(start < 0 or start + len(weights) > extent for start, weights in runs):
            raise refusal("resample", "a run leaves the picture", found=describe(inputs), expected=f"0 to {extent}")
    return (*x.shape[:2], len(bands[0][1]), len(bands[1][1]))


def _weighted(x: np.ndarray, runs: Sequence[Run]) -> np.ndarray:
    """Weighted sums of runs along the last axis, which comes first in the result."""
    sums = np.zeros((len(runs), *x.shape[:-1]))
    for place, (start, weights) in enumerate(runs):
        for offset, weight in enumerate(weights):
            sums[place] += weight * x[..., start + offset]
    return sums


def _reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    (_, rows), (_, columns) = attributes
    lines = np.moveaxis(_weighted(x.astype(np.float64), columns), 0, 2)  # [N, C, columns, H]
    return np.moveaxis(_weighted(lines, rows), 0, 2)


_RESAMPLE = register("resample", "window", _shape, FLOAT, _reference, ("rows", "columns"))


def resample(x: Node, rows: Band, columns: Band) -> Node:
    """y[n, c, i, j] = sum over r, s of rows[i][r] · columns[j][s] · x[n, c, start_i + r, start_j + s]."""
    return make_node(_RESAMPLE, (x,), (rows, columns))
