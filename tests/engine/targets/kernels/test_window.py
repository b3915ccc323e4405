"""Positions of window maxima and cumulative sums against plain loops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from tests.engine.targets.kernels.loop_runner import (
    addresses,
    compiled,
    from_bfloat16,
    laid_out,
    strides_of,
    to_bfloat16,
)
from trainer.engine.graph.dtypes import DType, bfloat16, float32, float64, int32, int64, uint8
from trainer.engine.targets.cpu.kernels import scan, window

CHANNELS_FIRST, CHANNELS_LAST = (0, 1, 2, 3), (0, 2, 3, 1)
NO_PADDING = ((0, 0), (0, 0))


def plain_argmax(x: np.ndarray, kernel: window.WindowArgmax) -> np.ndarray:
    """The definition, element by element."""
    result = np.zeros(kernel.output_shape, np.int32)
    height, width = x.shape[2:]
    for n, c, row, column in np.ndindex(*kernel.output_shape):
        best = None
        for i, j in itertools.product(range(kernel.window[0]), range(kernel.window[1])):
            h = row * kernel.strides[0] - kernel.padding[0][0] + i * kernel.dilation[0]
            w = column * kernel.strides[1] - kernel.padding[1][0] + j * kernel.dilation[1]
            if 0 <= h < height and 0 <= w < width:
                value = x[n, c, h, w]
                if best is None or value > best or (value != value and best == best):
                    best, result[n, c, row, column] = value, h * width + w
    return result


CASES = [  # shape, window, strides, padding, dilation
    ((2, 20, 9, 11), (2, 2), (2, 2), NO_PADDING, (1, 1)),
    ((2, 20, 9, 41), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    ((1, 3, 9, 40), (3, 2), (1, 2), ((1, 0), (0, 1)), (2, 3)),
    ((1, 17, 12, 12), (6, 6), (3, 3), ((2, 2), (2, 2)), (1, 1)),
    ((1, 17, 7, 7), (7, 7), (1, 1), NO_PADDING, (1, 1)),
    ((1, 1, 6, 7), (2, 2), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((1, 33, 1, 1), (1, 1), (1, 1), NO_PADDING, (1, 1)),
]
Padding = tuple[tuple[int, int], tuple[int, int]]


def placed(shape: Sequence[int], order: Sequence[int]) -> tuple[int, int, int, int]:
    image, channel, row, column = strides_of(shape, order)
    return image, channel, row, column


def check(
    case: tuple, dtype: DType, order: tuple[int, ...], *, output_order: tuple[int, ...] | None = None,
    nan: bool = False, narrow: bool = False,
) -> None:  # fmt: skip
    shape, extent, strides, padding, dilation = case
    values = np.random.default_rng(0).integers(-3 if dtype.kind != "uint" else 0, 4, shape).astype(np.float64)
    if nan:
        values.reshape(-1)[::7] = np.nan
    x = to_bfloat16(values.astype(np.float32)) if dtype is bfloat16 else values.astype(dtype.storage)
    output_order = output_order or order
    draft = window.WindowArgmax(dtype, shape, extent, strides, padding, dilation, placed(shape, order), (0, 0, 0, 0))
    kernel = window.WindowArgmax(
        dtype, shape, extent, strides, padding, dilation, placed(shape, order),
        placed(draft.output_shape, output_order),
    )  # fmt: skip
    x = laid_out(x, order)
    result = laid_out(np.full(kernel.output_shape, -1, np.int32), output_order)
    call = compiled(kernel.render("kernel"), narrow=narrow)
    call([*addresses([x, result]), kernel.rows], reversed(range(kernel.tasks)))
    np.testing.assert_array_equal(result, plain_argmax(from_bfloat16(x) if dtype is bfloat16 else x, kernel))


@pytest.mark.parametrize("order", [CHANNELS_FIRST, CHANNELS_LAST])
@pytest.mark.parametrize("case", CASES)
def test_the_first_maximum_of_each_window(case: tuple, order: tuple[int, ...]) -> None:
    check(case, float32, order)


@pytest.mark.parametrize("dtype", [uint8, int32, int64, bfloat16, float64], ids=str)
def test_every_type(dtype: DType) -> None:
    check(CASES[1], dtype, CHANNELS_LAST)


@pytest.mark.parametrize("order", [CHANNELS_FIRST, CHANNELS_LAST])
def test_the_first_nan_of_a_window_wins(order: tuple[int, ...]) -> None:
    check(CASES[1], float32, order, nan=True)


def test_the_result_may_lie_in_another_layout() -> None:
    check(CASES[0], float32, CHANNELS_LAST, output_order=CHANNELS_FIRST)
    check(CASES[0], float32, CHANNELS_FIRST, output_order=CHANNELS_LAST)


def test_windows_of_padding_alone_are_refused() -> None:
    kernel = window.WindowArgmax(
        float32, (1, 1, 4, 4), (2, 2), (2, 2), ((2, 2), (0, 0)), (1, 1), (16, 16, 4, 1), (0, 0, 0, 0)
    )
    with pytest.raises(ValueError, match="padding only"):
        kernel.render("kernel")


@pytest.mark.parametrize("dtype", [float32, float64, int32, uint8, bfloat16], ids=str)
@pytest.mark.parametrize(("shape", "axis"), [((30,), 0), ((4, 33), 1), ((33, 20), 0), ((3, 5, 18), 1), ((3, 1, 4), 1)])
def test_cumulative_sums_add_term_after_term(shape: tuple[int, ...], axis: int, dtype: DType) -> None:
    values = (np.random.default_rng(0).standard_normal(shape) * 50).astype(np.float32)
    x = to_bfloat16(values) if dtype is bfloat16 else values.astype(np.int64).astype(dtype.storage)
    if dtype.is_float and dtype is not bfloat16:
        x = values.astype(dtype.storage)
    strides = strides_of(shape, range(len(shape)))
    kernel = scan.Scan("add", dtype, shape, axis, strides, strides)
    result = np.empty(shape, dtype.storage)
    compiled(kernel.render("kernel"))(addresses([x, result]), range(kernel.tasks))
    if dtype is bfloat16:
        np.testing.assert_array_equal(result, to_bfloat16(np.cumsum(from_bfloat16(x), axis, dtype=np.float32)))
    else:
        np.testing.assert_array_equal(result, np.cumsum(x, axis, dtype=dtype.storage))


@pytest.mark.full
@pytest.mark.parametrize("dtype", [uint8, int32, int64, bfloat16, float32, float64], ids=str)
def test_every_type_and_case_on_narrow_vectors(dtype: DType) -> None:
    for case in CASES:
        for order in (CHANNELS_FIRST, CHANNELS_LAST):
            check(case, dtype, order, narrow=True)
