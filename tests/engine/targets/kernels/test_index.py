"""Gather, take_along and their transposes against NumPy, in any dense layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.kernels.loop_runner import addresses, compiled, laid_out, strides_of
from trainer.engine.graph.dtypes import DType, bfloat16, bool_, float32, float64, int32, int64, uint8
from trainer.engine.targets.cpu.kernels import index
from trainer.engine.targets.ir.indexing import Operation

CASES = [  # table shape, indices shape, axis, along
    ((100, 70), (33,), 0, False),
    ((100, 150), (5, 7), 0, False),
    ((30, 70), (5, 7), 1, False),
    ((1000,), (50,), 0, False),
    ((4, 9, 6), (), 1, False),
    ((4, 9, 1), (3,), 1, False),
    ((5, 3), (0,), 0, False),
    ((7,), (30,), 0, True),
    ((30, 5), (30, 1), 1, True),
    ((2, 20, 48), (2, 20, 12), 2, True),
    ((2, 70, 9, 3), (2, 70, 4, 3), 2, True),
]
LAST_FIRST = "reversed"


def order_of(ndim: int, layout: str) -> tuple[int, ...]:
    if layout == "channels last" and ndim >= 3:
        return (0, *range(2, ndim), 1)
    return tuple(reversed(range(ndim))) if layout == LAST_FIRST else tuple(range(ndim))


def build(
    operation: Operation,
    table: Sequence[int],
    indices: Sequence[int],
    axis: int,
    along: bool,
    dtype: DType,
    layout: str,
) -> tuple[index.IndexKernel, tuple[int, ...]]:
    """The kernel with all three arrays in `layout`, and the dense array's shape."""
    dense = tuple(indices) if along else (*table[:axis], *indices, *table[axis + 1 :])
    kernel = index.IndexKernel.over(
        operation, along, table, indices, axis, dtype, int32 if layout == "row major" else int64,
        table_strides=strides_of(table, order_of(len(table), layout)),
        index_strides=strides_of(indices, order_of(len(indices), layout)),
        dense_strides=strides_of(dense, order_of(len(dense), layout)),
    )  # fmt: skip
    return kernel, dense


def execute(kernel: index.IndexKernel, arrays: list[np.ndarray], narrow: bool = False) -> None:
    call = compiled(kernel.render("kernel"), narrow=narrow)
    call(addresses(arrays), reversed(range(kernel.tasks)))


def check(
    table_shape: Sequence[int], indices_shape: Sequence[int], axis: int, along: bool, dtype: DType, layout: str,
    narrow: bool = False,
) -> None:  # fmt: skip
    random = np.random.default_rng(0)

    def place(array: np.ndarray) -> np.ndarray:
        return laid_out(array, order_of(array.ndim, layout))

    gathering, dense_shape = build("gather", table_shape, indices_shape, axis, along, dtype, layout)
    indices = place(random.integers(0, table_shape[axis], indices_shape).astype(gathering.index_dtype.storage))
    table = place(random.integers(0, 2 if dtype is bool_ else 100, table_shape).astype(dtype.storage))
    dense = place(np.zeros(dense_shape, dtype.storage))
    execute(gathering, [table, indices, dense], narrow)
    wide = indices.astype(np.int64)
    wanted = np.take_along_axis(table, wide, axis) if along else np.take(table, wide, axis)
    np.testing.assert_array_equal(dense, wanted)
    if dtype in (bool_, bfloat16):
        return
    updates = place((random.standard_normal(dense_shape) * 10).astype(dtype.storage))
    total = place(np.full(table_shape, 7, dtype.storage))
    adding, _ = build("scatter_add", table_shape, indices_shape, axis, along, dtype, layout)
    execute(adding, [updates, indices, total], narrow)
    expected = np.zeros(table_shape, dtype.storage)
    if along:
        places: list[Any] = list(np.indices(indices_shape))
        places[axis] = wide
    else:
        places = [*(slice(None),) * axis, wide]
    np.add.at(expected, tuple(places), updates)
    np.testing.assert_array_equal(total, expected)  # bit for bit: numpy adds in the same order


@pytest.mark.parametrize("layout", ["row major", "channels last", LAST_FIRST])
@pytest.mark.parametrize(("table", "indices", "axis", "along"), CASES)
def test_all_four_equal_numpy(
    table: tuple[int, ...], indices: tuple[int, ...], axis: int, along: bool, layout: str
) -> None:
    check(table, indices, axis, along, float32, layout)


@pytest.mark.parametrize("dtype", [bool_, uint8, int32, int64, bfloat16, float64], ids=str)
def test_every_type(dtype: DType) -> None:
    check((20, 40), (33,), 0, False, dtype, "row major")
    check((2, 20, 48), (2, 20, 12), 2, True, dtype, "channels last")


def test_indices_outside_are_clamped_when_reading_and_dropped_when_adding() -> None:
    indices = np.array([-5, 0, 3, 4, 100], np.int32)
    for columns in (1, 20):  # one element at a time, and vectors
        table = np.arange(4 * columns, dtype=np.float32).reshape(4, columns)
        kernel, _ = build("gather", table.shape, indices.shape, 0, False, float32, "row major")
        dense = np.zeros((5, columns), np.float32)
        execute(kernel, [table, indices, dense])
        np.testing.assert_array_equal(dense, table[[0, 0, 3, 3, 3]])
        kernel, _ = build("scatter_add", table.shape, indices.shape, 0, False, float32, "row major")
        total = np.full((4, columns), 9, np.float32)
        execute(kernel, [np.ones((5, columns), np.float32), indices, total])
        np.testing.assert_array_equal(total, np.array([[1.0], [0], [0], [1]]) + np.zeros((4, columns)))


def test_lanes_outside_are_dropped_one_by_one() -> None:
    indices = np.tile(np.array([-1, 0, 2, 3, 7], np.int32), 4)[None]
    kernel, _ = build("scatter_add", (3, 20), (1, 20), 0, True, float32, "row major")
    total = np.full((3, 20), 9, np.float32)
    execute(kernel, [np.ones((1, 20), np.float32), indices, total])
    np.testing.assert_array_equal(total[0], np.tile([0, 1, 0, 0, 0], 4))
    np.testing.assert_array_equal(total[2], np.tile([0, 0, 1, 0, 0], 4))


@pytest.mark.parametrize("columns", [2, 40])
def test_one_update_repeated_along_a_row_is_added_to_each_element(columns: int) -> None:
    """Updates of stride 0, as a broadcast leaves them, with an index for each element and one for each row."""
    updates = np.array([70, 5, -3], np.int32)
    along = np.arange(3 * columns, dtype=np.int64).reshape(3, columns) % 4
    for indices, steps in ((along, (columns, 1)), (np.array([3, 1, 1]), (1, 0))):
        kernel = index.IndexKernel(
            "scatter_add", int32, int64, (3, columns), axis_size=3, axis_stride=columns, dense_strides=(1, 0),
            index_strides=steps, table_strides=(0, 1),
        )  # fmt: skip
        total = np.full((3, columns), 9, np.int32)
        execute(kernel, [updates, indices, total])
        expected = np.zeros((4, columns), np.int32)
        rows = np.broadcast_to(indices.reshape(3, -1), (3, columns))
        np.add.at(expected, (rows, np.arange(columns)), updates[:, None])
        np.testing.assert_array_equal(total, expected[:3])


def test_bfloat16_is_added_in_float32() -> None:
    """Half a thousand ones would stick at 256 in bfloat16."""
    updates = np.full((500, 20), 0x3F80, np.uint16)
    kernel, _ = build("scatter_add", (3, 20), (500,), 0, False, bfloat16, "row major")
    assert kernel.table_dtype is float32
    total = np.empty((3, 20), np.float32)
    execute(kernel, [updates, np.full(500, 1, np.int32), total])
    np.testing.assert_array_equal(total, [[0.0] * 20, [500.0] * 20, [0.0] * 20])


def test_an_empty_axis_has_nothing_to_gather() -> None:
    kernel, _ = build("gather", (0, 4), (3,), 0, False, float32, "row major")
    with pytest.raises(ValueError, match="axis of length 0"):
        kernel.render("kernel")


@pytest.mark.full
@pytest.mark.parametrize("dtype", [bool_, uint8, int32, int64, bfloat16, float32, float64], ids=str)
@pytest.mark.parametrize("layout", ["row major", "channels last", LAST_FIRST])
def test_every_type_layout_and_case_on_narrow_vectors(layout: str, dtype: DType) -> None:
    for table, indices, axis, along in CASES:
        check(table, indices, axis, along, dtype, layout, narrow=True)
