"""Winograd's transforms as matrices, from the definition of their points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from trainer.engine.targets.cpu.kernels.winograd_transforms import Algorithm


def matrices(algorithm: Algorithm) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """G [points, taps], B^T [points, points] and A^T [outputs, points] in float64."""
    finite = [Fraction(0), *(sign * pair for pair in algorithm.pairs for sign in (1, -1))]
    filters, data = np.zeros((algorithm.points, algorithm.taps)), np.zeros((algorithm.points, algorithm.points))
    outputs = np.zeros((algorithm.outputs, algorithm.points))
    for row, point in enumerate(finite):
        rest = [other for other in finite if other != point]
        distance = math.prod((point - other for other in rest), start=Fraction(1))
        filters[row] = [float(point**power / distance) for power in range(algorithm.taps)]
        data[row, : len(finite)] = _coefficients(rest)
        outputs[:, row] = [float(point**power) for power in range(algorithm.outputs)]
    filters[-1, -1] = outputs[-1, -1] = 1
    data[-1] = _coefficients(finite)
    return filters, data, outputs


def growth(algorithm: Algorithm) -> float:
    """How much larger sum |A^T| (|G||g||G^T| * |B^T||d||B|) |A| can be than sum |g||d|, for equal |g| and |d|."""
    filters, data, outputs = (np.abs(matrix) for matrix in matrices(algorithm))
    weights, inputs = (matrix @ np.ones((matrix.shape[1],) * 2) @ matrix.T for matrix in (filters, data))
    return float((outputs @ (weights * inputs) @ outputs.T).max() / algorithm.taps**2)


def _coefficients(roots: Sequence[Fraction]) -> list[float]:
    """Of the polynomial with these roots, lowest power first."""
    result = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *result]
        result = [up - root * here for up, here in zip(shifted, [*result, Fraction(0)], strict=True)]
    return [float(value) for value in result]
