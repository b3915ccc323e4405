"""Reductions against the written order, executed plainly; the same bits along rows and columns."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.targets.kernels.loop_runner import (
    addresses,
    compiled,
    from_bfloat16,
    run_reduction,
    steps,
    to_bfloat16,
)
from trainer.engine.graph.dtypes import DType, bfloat16, bool_, float32, float64, int32, int64, uint8
from trainer.engine.program.spec import Instruction, Reduction
from trainer.engine.targets.cpu.kernels import moments
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel, pack_arguments
from trainer.engine.targets.cpu.lowering.loops import code_of
from trainer.engine.targets.ir.operand import Operand

LANES = 16
SHAPES = [(1, 1), (5, 3), (16, 16), (33, 70), (100, 64), (333, 130), (40, 1100), (0, 3)]


def in_order(array: np.ndarray, operation: np.ufunc, identity: float, block: int) -> np.ndarray:
    """[blocks, kept]: the first axis reduced in the order that the specification writes down."""
    results = []
    for start in range(0, max(1, len(array)), block):
        lanes = np.full((LANES, *array.shape[1:]), identity, array.dtype)
        for position, term in enumerate(array[start : start + block]):
            lanes[position % LANES] = operation(lanes[position % LANES], term)
        while len(lanes) > 1:
            lanes = operation(lanes[: len(lanes) // 2], lanes[len(lanes) // 2 :])
        results.append(lanes[0])
    return np.stack(results)


def both_orientations(
    operations: list[str], dtype: DType, array: np.ndarray, results: list[DType], block: int, grain: int
) -> list[np.ndarray]:
    """The first axis of a 2-D array reduced as a column and as a row; asserts the same bits."""
    column = run_reduction(operations, dtype, array, 0, results, block=block, grain=grain)
    flipped = np.ascontiguousarray(array.T)
    row = run_reduction(operations, dtype, flipped, 1, results, block=block, grain=grain)
    for a, b in zip(column, row, strict=True):
        assert a.tobytes() == b.tobytes()
    return column


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_and_products_keep_the_written_order(shape: tuple[int, int], dtype: DType) -> None:
    array = np.random.default_rng(0).standard_normal(shape).astype(dtype.storage)
    for block, grain in ((16, 1), (64, 3), (4096, 20)):
        total, product = both_orientations(["sum", "prod"], dtype, array, [dtype, dtype], block, grain)
        np.testing.assert_array_equal(total, in_order(array, np.add, 0, block))
        np.testing.assert_array_equal(product, in_order(array, np.multiply, 1, block))


def moments_in_order(array: np.ndarray, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviations of each block of the first axis, as the specification writes them down."""
    means, deviations = [], []
    for start in range(0, len(array), block):
        part = array[start : start + block]
        middle = part[max(0, len(part) - LANES) // 2 :][:LANES]
        pivot = in_order(middle, np.add, 0, LANES)[0] / array.dtype.type(len(middle))
        distance, count = part - pivot, array.dtype.type(len(part))
        first, second = in_order(distance, np.add, 0, block)[0], in_order(distance * distance, np.add, 0, block)[0]
        means.append(pivot + first / count)
        deviations.append(np.maximum(second - first * (first / count), 0))
    return np.stack(means), np.stack(deviations)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[0]], ids=str)
def test_moments_keep_the_written_order(shape: tuple[int, int], dtype: DType) -> None:
    array = np.random.default_rng(0).normal(3, 1, shape).astype(dtype.storage)
    for block, grain in ((16, 1), (64, 3), (4096, 20)):
        got = both_orientations(["mean", "deviations", "sum"], dtype, array, [dtype] * 3, block, grain)
        for result, wanted in zip(
            got, (*moments_in_order(array, block), in_order(array, np.add, 0, block)), strict=True
        ):
            np.testing.assert_array_equal(result, wanted)
        (alone,) = both_orientations(["deviations"], dtype, array, [dtype], block, grain)
        np.testing.assert_array_equal(alone, got[1])


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize(("kept", "length", "block"), [(1, 40, 16), (33, 640, 64), (530, 1000, 512)])
def test_blocks_of_moments_merge_by_chans_formula_in_order(kept: int, length: int, block: int, dtype: DType) -> None:
    array = np.random.default_rng(0).normal(5, 2, (length, kept)).astype(dtype.storage)
    means, deviations = moments_in_order(array, block)
    mean, deviation, one = means[0], deviations[0], dtype.storage.type
    for number in range(1, len(means)):
        start, stop = number * block, min(length, (number + 1) * block)
        share, distance = one(stop - start) / one(stop), means[number] - mean
        deviation = (deviation + deviations[number]) + distance * distance * (one(start) * share)
        mean = mean + distance * share
    results = np.full((2, kept), 7, dtype.storage)
    words = [*addresses([means, deviations, results[0], results[1]]), kept, length, block]
    compiled(moments.render_merge(dtype, "kernel"))(words, range(moments.merge_tasks(kept)))
    np.testing.assert_array_equal(results, [mean, deviation])
    np.testing.assert_allclose(results[1], array.astype(np.float64).var(0) * length, rtol=1e-5)


@pytest.mark.parametrize(("mean", "first"), [(1000.0, 1000.0), (-30000.0, -30000.0), (1000.0, 0.0), (0.0, 1e6)])
def test_moments_hold_far_from_zero_and_behind_an_odd_first_element(mean: float, first: float) -> None:
    """Against float64, over a block of 512."""
    array = np.random.default_rng(0).normal(mean, 1.0, (512, 20)).astype(np.float32)
    array[0] = first
    (means, deviations) = both_orientations(["mean", "deviations"], float32, array, [float32, float32], 512, 1)
    wide = array.astype(np.float64)
    np.testing.assert_allclose(means[0], wide.mean(0), rtol=4 * 2.0**-24, atol=4 * 2.0**-24 * abs(first))
    np.testing.assert_allclose(deviations[0], wide.var(0) * 512, rtol=40 * 2.0**-24)


def test_moments_hold_behind_an_edge() -> None:
    """The upper row of a picture of 32 by 16 pixels stands apart, as padding makes it; against float64."""
    array = np.random.default_rng(0).normal(0.0, 0.1, (512, 200)).astype(np.float32)
    array[:32] += 2
    (means, deviations) = both_orientations(["mean", "deviations"], float32, array, [float32, float32], 512, 1)
    wide = array.astype(np.float64)
    np.testing.assert_allclose(means[0], wide.mean(0), rtol=2.0**-22)
    np.testing.assert_allclose(deviations[0], wide.var(0) * 512, rtol=2.0**-21)


@pytest.mark.parametrize("dtype", [uint8, int32, int64], ids=str)
def test_integers_wrap(dtype: DType) -> None:
    information = np.iinfo(dtype.storage)
    array = np.random.default_rng(0).integers(information.min, information.max, (50, 20), dtype.storage)
    operations = ["sum", "prod", "max", "min"]
    results = both_orientations(operations, dtype, array, [dtype] * 4, 64, 1)
    with np.errstate(over="ignore"):
        for result, wanted in zip(results, (np.add, np.multiply, np.maximum, np.minimum), strict=True):
            np.testing.assert_array_equal(result[0], wanted.reduce(array, 0, dtype=dtype.storage))


def test_any_and_all_are_the_extremes_of_booleans() -> None:
    array = np.random.default_rng(0).random((40, 33)) < 0.05
    some, every = both_orientations(["max", "min"], bool_, array, [bool_, bool_], 64, 1)
    np.testing.assert_array_equal(some[0], array.any(0))
    np.testing.assert_array_equal(every[0], array.all(0))
    some, every = both_orientations(["max", "min"], bool_, ~array, [bool_, bool_], 64, 1)
    np.testing.assert_array_equal(every[0], (~array).all(0))


@pytest.mark.parametrize("dtype", [float32, float64, int32, uint8], ids=str)
def test_extremes_and_the_first_of_equal_positions(dtype: DType) -> None:
    array = np.random.default_rng(0).integers(0, 9, (45, 70)).astype(dtype.storage)
    operations, results = ["max", "argmax", "min", "argmin"], [dtype, int64, dtype, int64]
    largest, where_largest, smallest, where_smallest = both_orientations(operations, dtype, array, results, 64, 1)
    np.testing.assert_array_equal(largest[0], array.max(0))
    np.testing.assert_array_equal(where_largest[0], array.argmax(0))
    np.testing.assert_array_equal(smallest[0], array.min(0))
    np.testing.assert_array_equal(where_smallest[0], array.argmin(0))


def test_nan_wins_every_extreme_and_the_first_nan_is_found() -> None:
    array = np.random.default_rng(0).standard_normal((60, 18)).astype(np.float32)
    array[[17, 33, 40], :9] = np.nan
    array[:, 9] = -np.inf
    array[:, 10] = np.inf
    operations, results = ["max", "argmax", "min", "argmin"], [float32, int64, float32, int64]
    got = both_orientations(operations, float32, array, results, 64, 1)
    for result, wanted in zip(got, (array.max(0), array.argmax(0), array.min(0), array.argmin(0)), strict=True):
        np.testing.assert_array_equal(result[0], wanted)


def test_positions_count_from_the_start_of_the_axis_in_every_block() -> None:
    array = np.random.default_rng(0).standard_normal((70, 5)).astype(np.float32)
    (where,) = both_orientations(["argmax"], float32, array, [int64], 32, 1)
    np.testing.assert_array_equal(where, [array[s : s + 32].argmax(0) + s for s in (0, 32, 64)])


def test_bfloat16_accumulates_in_float32_and_is_rounded_when_stored() -> None:
    bits = to_bfloat16(np.random.default_rng(0).standard_normal((300, 20)).astype(np.float32))
    wanted = in_order(from_bfloat16(bits), np.add, 0, 512)
    rounded, exact = both_orientations(["sum", "sum"], bfloat16, bits, [bfloat16, float32], 512, 1)
    np.testing.assert_array_equal(exact, wanted)
    np.testing.assert_array_equal(rounded, to_bfloat16(wanted))


@pytest.mark.parametrize("axis", [2, 3])
def test_views_of_four_dimensions(axis: int) -> None:
    base = np.random.default_rng(0).integers(0, 50, (6, 5, 70, 40)).astype(np.float32)
    views = [base, base.transpose(1, 0, 3, 2), base[:, :, ::2, ::-1], base.transpose(3, 2, 0, 1)]
    views.append(np.broadcast_to(base[:, :, :1, :1], (6, 5, 19, 35)))
    for view in views:
        (total,) = run_reduction(["sum"], float32, view, axis, [float32], block=1024, grain=3)
        np.testing.assert_array_equal(total[0], view.sum(axis))


def test_a_body_is_evaluated_on_what_is_reduced() -> None:
    """Sum of squares and of products of two arrays in one pass."""
    x, y = np.random.default_rng(0).integers(-9, 9, (2, 30, 47)).astype(np.float32)
    body = [Instruction("load", (), float32, (number,)) for number in range(2)]
    body += [Instruction("multiply", (0, 0), float32), Instruction("multiply", (0, 1), float32)]
    for orientation, axis in (("row", 1), ("column", 0)):
        operand = Operand(float32, "contiguous")
        outputs = ((2, operand), (3, operand))
        reduction = Reduction(("sum", "sum"), orientation)  # type: ignore[arg-type]
        kernel = LoopKernel(2, (operand, operand), tuple(body), outputs, reduction)
        kept = x.shape[1 - axis]
        squares, products = np.zeros((2, kept), np.float32)
        own = [[1, 0], [1, 0]] if orientation == "row" else [[0, 1], [0, 1]]
        words = pack_arguments(
            kernel, addresses([x, y, squares, products]), x.shape, [steps(x), steps(y), *own], 64, kept
        )
        compiled(code_of(kernel).render("kernel"))(words, [0])
        np.testing.assert_array_equal(squares, (x * x).sum(axis))
        np.testing.assert_array_equal(products, (x * y).sum(axis))


@pytest.mark.full
@pytest.mark.parametrize("dtype", [float32, bfloat16, int32, uint8], ids=str)
def test_narrow_vectors_give_the_same_bits(dtype: DType) -> None:
    array = np.random.default_rng(0).integers(0, 1000, (333, 130)).astype(dtype.storage)
    operations, results = ["sum", "max", "argmin"], [dtype, dtype, int64]
    for axis in (0, 1):
        wide, narrow = (
            run_reduction(operations, dtype, array, axis, results, block=128, grain=2, narrow=each)
            for each in (False, True)
        )
        for a, b in zip(wide, narrow, strict=True):
            assert a.tobytes() == b.tobytes()
