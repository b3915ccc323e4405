"""Loops over views: every rank, stride and tail, split into tasks anywhere, and never a write outside."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.targets.kernels.loop_runner import addresses, compiled, run_elementwise, steps
from trainer.engine.graph.dtypes import DType, bfloat16, bool_, float32, float64, int32, int64, uint8
from trainer.engine.graph.storage import aligned_empty
from trainer.engine.program.spec import Instruction, Reduction
from trainer.engine.targets.cpu.kernels.elementwise import render
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel, pack_arguments
from trainer.engine.targets.ir.operand import Operand

DTYPES = [bool_, uint8, int32, int64, bfloat16, float32, float64]


def memory(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2 if dtype is bool_ else 100, shape).astype(dtype.storage)


def guarded(dtype: DType, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """An array inside a larger one; the second is everything around it."""
    size = int(np.prod(shape))
    whole = np.ones(size + 128, dtype.storage)
    return whole[64 : 64 + size].reshape(shape), whole


def copy(source: np.ndarray, dtype: DType, *, chunk: int | None = None, narrow: bool = False) -> np.ndarray:
    target, whole = guarded(dtype, source.shape)
    run_elementwise(
        [Instruction("load", (), dtype, (0,))], [(dtype, source)], [(0, dtype, target)], chunk=chunk, narrow=narrow
    )
    assert (whole[:64] == 1).all() and (whole[-64:] == 1).all(), "wrote outside the output"
    return target


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_every_length(dtype: DType) -> None:
    for length in (0, 1, 15, 16, 17, 31, 100):
        for rows in (1, 3):
            source = memory(dtype, (rows, length))
            np.testing.assert_array_equal(copy(source, dtype), source)
        np.testing.assert_array_equal(copy(source[0], dtype), source[0])


@pytest.mark.parametrize("narrow", [False, True], ids=["", "narrow"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_stored_past_the_caches_hold_the_same(dtype: DType, narrow: bool) -> None:
    for rows, length in ((1, 500), (3, 100), (2, 64), (4, 7)):
        source = memory(dtype, (rows, length))
        room = aligned_empty(rows * 512, dtype.storage)[: rows * 512].reshape(rows, 512)
        room[...] = 1
        target = room[:, :length]
        load, contiguous = Instruction("load", (), dtype, (0,)), Operand(dtype, "contiguous")
        kernel = LoopKernel(2, (contiguous,), (load,), ((0, contiguous),), streamed=True)
        words = pack_arguments(kernel, addresses([source, target]), source.shape, [steps(source), steps(target)], 1)
        compiled(render(kernel, "kernel"), narrow=narrow)(words, reversed(range(rows)))
        np.testing.assert_array_equal(target, source)
        assert (room[:, length:] == 1).all(), "wrote outside the output"


@pytest.mark.parametrize("narrow", [False, True], ids=["", "narrow"])
@pytest.mark.parametrize("length", [7, 32, 500])
def test_rows_stored_past_the_caches_mix_elements_of_every_size(length: int, narrow: bool) -> None:
    rows = 3
    mask, x = memory(bool_, (rows, length), 1), memory(float32, (rows, length), 2)
    limit = np.broadcast_to(np.array([[20], [50], [99]], np.float32), (rows, length))
    outputs = [aligned_empty(rows * 512, dtype.storage).reshape(rows, 512)[:, :length] for dtype in (float32, bool_)]
    body = (
        *(Instruction("load", (), dtype, (number,)) for number, dtype in enumerate((bool_, float32, float32))),
        Instruction("where", (0, 1, 2), float32),
        Instruction("less", (1, 2), bool_),
    )
    inputs = Operand(bool_, "contiguous"), Operand(float32, "contiguous"), Operand(float32, "broadcast")
    results = (3, Operand(float32, "contiguous")), (4, Operand(bool_, "contiguous"))
    arrays = [mask, x, limit, *outputs]
    kernel = LoopKernel(2, inputs, body, results, streamed=True)
    words = pack_arguments(kernel, addresses(arrays), x.shape, [steps(array) for array in arrays], 1)
    compiled(render(kernel, "kernel"), narrow=narrow)(words, range(rows))
    np.testing.assert_array_equal(outputs[0], np.where(mask, x, limit))
    np.testing.assert_array_equal(outputs[1], x < limit)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_views_of_every_kind(dtype: DType) -> None:
    base = memory(dtype, (6, 40, 36))
    views = {
        "transposed": base[0].T,
        "transposed outer": base.transpose(1, 0, 2),
        "transposed all": base.transpose(2, 1, 0),
        "channels last": base.transpose(1, 2, 0),
        "channels first": base.transpose(0, 2, 1),
        "every third": base[..., ::3],
        "backwards": base[:, ::-1, ::-1],
        "one row repeated": np.broadcast_to(base[0, 0], (5, 36)),
        "one column repeated": np.broadcast_to(base[0, :, :1], (40, 33)),
        "a scalar": np.broadcast_to(base[0, 0, 0], (4, 19)),
    }
    for name, view in views.items():
        np.testing.assert_array_equal(copy(view, dtype), view, name)


@pytest.mark.parametrize("shape", [(35,), (35, 18), (5, 7, 18), (3, 20, 2, 40)])
def test_any_split_into_tasks_gives_the_same(shape: tuple[int, ...]) -> None:
    source = memory(float32, shape[::-1]).T
    for chunk in (1, 3, 16, 17, 1000):
        np.testing.assert_array_equal(copy(source, float32, chunk=chunk), source)


def test_outputs_may_be_views_too() -> None:
    source = memory(int32, (20, 33))
    target = np.zeros((33, 40), np.int32)
    view = target[:, ::2].T
    run_elementwise([Instruction("load", (), int32, (0,))], [(int32, source)], [(0, int32, view)])
    np.testing.assert_array_equal(view, source)
    assert not target[:, 1::2].any()


def test_working_in_place() -> None:
    """The tail is masked, not an overlapping vector: an element is computed once."""
    array = np.arange(37, dtype=np.float32)
    body = [Instruction("load", (), float32, (0,)), Instruction("add", (0, 0), float32)]
    run_elementwise(body, [(float32, array)], [(1, float32, array)])
    np.testing.assert_array_equal(array, 2 * np.arange(37, dtype=np.float32))


def test_several_inputs_and_outputs_in_one_pass() -> None:
    x, scale, shift = memory(float32, (9, 50)), memory(float32, (50,), 1), memory(float32, (9, 1), 2)
    body = [
        *(Instruction("load", (), float32, (number,)) for number in range(3)),
        Instruction("multiply", (0, 1), float32),
        Instruction("add", (3, 2), float32),
        Instruction("constant", (), float32, (100.0,)),
        Instruction("less", (4, 5), bool_),
    ]
    inputs = [(float32, x), *((float32, np.broadcast_to(each, x.shape)) for each in (scale, shift))]
    result, below = np.empty_like(x), np.empty(x.shape, bool)
    run_elementwise(body, inputs, [(4, float32, result), (6, bool_, below)])
    np.testing.assert_array_equal(result, x * scale + shift)
    np.testing.assert_array_equal(below, result < 100)


@pytest.mark.parametrize("inner", [1, 3, 0])
def test_index_operands_are_computed_from_base_and_strides(inner: int) -> None:
    shape, strides, base = (4, 5, 21), (1000, -7, inner), 12
    kind = {1: "contiguous", 0: "broadcast"}.get(inner, "strided")
    kernel = LoopKernel(
        3,
        (Operand(int64, kind, index=True),),  # type: ignore[arg-type]
        (Instruction("load", (), int64, (0,)),),
        ((0, Operand(int64, "contiguous")),),
    )
    result = np.zeros(shape, np.int64)
    words = pack_arguments(kernel, [base, *addresses([result])], shape, [strides, steps(result)], 3)
    compiled(render(kernel, "kernel"))(words, range(7))
    positions = np.indices(shape)
    wanted = base + sum(position * stride for position, stride in zip(positions, strides, strict=True))
    np.testing.assert_array_equal(result, wanted)


def test_a_tile_is_transposed_with_its_companions() -> None:
    """Strided, contiguous, broadcast and index operands side by side in one tiled kernel, also with a long body."""
    x, y, z = memory(float32, (37, 50)).T, memory(float32, (50, 37), 1), memory(float32, (50, 1), 2)
    body = [Instruction("load", (), float32, (number,)) for number in range(3)]
    body += [Instruction("add", (0, 1), float32), Instruction("multiply", (3, 2), float32)]
    for _ in range(8):
        body.append(Instruction("add", (len(body) - 1, 1), float32))
    result = np.empty(x.shape, np.float32)
    inputs = [(float32, x), (float32, y), (float32, np.broadcast_to(z, x.shape))]
    run_elementwise(body, inputs, [(len(body) - 1, float32, result)], chunk=21)
    np.testing.assert_array_equal(result, (x + y) * z + 8 * y)


def test_a_reduction_is_refused() -> None:
    operand = Operand(float32, "contiguous")
    body = (Instruction("load", (), float32, (0,)),)
    kernel = LoopKernel(1, (operand,), body, ((0, operand),), Reduction(("sum",), "row"))
    with pytest.raises(ValueError, match="reduction"):
        render(kernel, "kernel")


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_narrow_vectors_give_the_same(dtype: DType) -> None:
    base = memory(dtype, (5, 40, 37))
    for view in (base, base.transpose(2, 1, 0), base[..., ::2], base.transpose(0, 2, 1)):
        np.testing.assert_array_equal(copy(view, dtype, narrow=True), view)
