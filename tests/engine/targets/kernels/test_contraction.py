"""Matrix products: values against NumPy, and the same bits for every choice of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.kernels.conftest import KernelRunner
from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Epilogue, EpilogueOperand, Instruction
from trainer.engine.targets.cpu import defaults
from trainer.engine.targets.cpu.machine import NARROW
from trainer.engine.targets.cpu.templates import contraction
from trainer.engine.targets.cpu.templates.contraction import MatmulParameters, MatmulSpec

F32, F64, I32, I64 = dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64
ODD = [MatmulParameters(5, 3, 10, 3, unroll=3), MatmulParameters(28, 1, 28, 2, unroll=2)]


def draw(shape: Sequence[int], dtype: DType, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape)
    return (values if dtype.is_float else values * 50).astype(dtype.storage)


def multiply(
    run_kernel: KernelRunner,
    spec: MatmulSpec,
    parameters: Any,
    a: np.ndarray,
    b: np.ndarray,
    operands: Sequence[np.ndarray] = (),
) -> np.ndarray:
    """The product through the kernel, `b` packed first where the spec says so; tasks run last to first."""
    if spec.packed:
        packing = contraction.pack_spec(spec)
        packed = run_kernel.empty([packing.size], spec.dtype.storage)
        run_kernel(packing.render("pack"), "pack", [b, packed, *packing.words], range(packing.tasks))
        b = packed
    output = run_kernel.empty([*spec.batch, spec.rows, spec.columns], spec.epilogue.output(spec.dtype).storage)
    tasks = reversed(range(contraction.TEMPLATE.tasks(spec, parameters)))
    scratch = contraction.TEMPLATE.scratch_bytes(spec, parameters)
    run_kernel(
        contraction.TEMPLATE.render(spec, parameters, "product"), "product", [a, b, output, *operands], tasks, scratch
    )
    return output


@pytest.mark.parametrize("dtype", [F32, F64, I32, I64], ids=str)
@pytest.mark.parametrize(("rows", "columns", "depth"), [(1, 1, 1), (13, 10, 7), (29, 100, 64), (16, 48, 33)])
def test_product_equals_numpy(run_kernel: KernelRunner, dtype: DType, rows: int, columns: int, depth: int) -> None:
    a, b = draw((rows, depth), dtype), draw((depth, columns), dtype, 1)
    wide = np.float64 if dtype.is_float else np.int64
    expected = a.astype(wide) @ b.astype(wide)
    spec = MatmulSpec(dtype, rows, columns, depth, (depth, 1), (columns, 1), packed=False)
    tolerance = {"float32": 1e-5, "float64": 1e-13}.get(dtype.name, 0)
    found = multiply(run_kernel, spec, defaults.choose(spec), run_kernel.aligned(a), run_kernel.aligned(b))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_operands_may_be_transposed_and_packed(
    run_kernel: KernelRunner, a_transposed: bool, b_transposed: bool
) -> None:
    rows, columns, depth = 27, 70, 37
    a, b = draw((rows, depth), F32), draw((depth, columns), F32, 1)
    spec = MatmulSpec(
        F32,
        rows,
        columns,
        depth,
        (1, rows) if a_transposed else (depth, 1),
        (1, depth) if b_transposed else (columns, 1),
    )
    stored = run_kernel.aligned(a.T if a_transposed else a), run_kernel.aligned(b.T if b_transposed else b)
    found = multiply(run_kernel, spec, defaults.choose(spec), *stored)
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("packed", [False, True])
def test_batch_dimensions_may_be_shared(run_kernel: KernelRunner, packed: bool) -> None:
    a, b = draw((2, 3, 9, 8), F32), draw((3, 8, 21), F32, 1)
    spec = MatmulSpec(F32, 9, 21, 8, (8, 1), (21, 1), batch=(2, 3), a_batch=(216, 72), b_batch=(0, 168), packed=packed)
    found = multiply(run_kernel, spec, defaults.choose(spec), run_kernel.aligned(a), run_kernel.aligned(b))
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_parameters_leave_the_bits_alone(run_kernel: KernelRunner, dtype: DType) -> None:
    rows, columns, depth = 45, 75, 130
    spec = MatmulSpec(dtype, rows, columns, depth, (depth, 1), (columns, 1))
    a, b = (run_kernel.aligned(draw(shape, dtype)) for shape in ((rows, depth), (depth, columns)))
    reference = multiply(run_kernel, spec, ODD[0], a, b)
    packing_rows = replace(ODD[0], pack_rows=True)
    for parameters in (*defaults.candidates(spec)[:3], ODD[1], packing_rows):
        for packed in (True, False):
            found = multiply(run_kernel, replace(spec, packed=packed), parameters, a, b)
            assert found.tobytes() == reference.tobytes(), parameters


@pytest.mark.parametrize("dtype", [F32, F64, I32], ids=str)
@pytest.mark.parametrize("a_transposed", [False, True])
def test_what_narrow_machines_copy_leaves_the_bits_alone(
    run_kernel: KernelRunner, dtype: DType, a_transposed: bool
) -> None:
    """Of each matrix of a batch, 1,100 steps on so many pages, in strips of which the last is cut."""
    batch, rows, columns, depth = 2, 45, 147, 1100
    strides = (1, rows) if a_transposed else (depth, 1)
    spec = MatmulSpec(
        dtype, rows, columns, depth, strides, (columns, 1), (batch,), (rows * depth,), (depth * columns,)
    )  # fmt: skip
    a, b = (run_kernel.aligned(draw((batch, *shape), dtype)) for shape in ((rows, depth), (depth, columns)))
    reference = multiply(run_kernel, spec, ODD[0], a, b)
    chosen = defaults.candidates(spec, NARROW)
    assert any(parameters.pack_rows for parameters in chosen)
    for parameters in (*chosen[:4], MatmulParameters(5, 1, 15, 4, unroll=3, pack_rows=True)):
        for packed in (True, False):
            found = multiply(run_kernel, replace(spec, packed=packed), parameters, a, b)
            assert found.tobytes() == reference.tobytes(), parameters


def test_rows_and_columns_that_are_both_apart_are_not_copied() -> None:
    spec = MatmulSpec(F32, 512, 512, 512, (1024, 2), (512, 1))
    assert not any(parameters.pack_rows for parameters in defaults.candidates(spec, NARROW))


def test_product_is_one_chain_of_fused_multiply_adds(run_kernel: KernelRunner) -> None:
    a, b = draw((1, 40), F32), draw((40, 1), F32, 1)
    total = np.float32(0)
    for left, right in zip(a[0], b[:, 0], strict=True):
        # float64 holds the product of two floats exactly; its sum is rounded once more, far from any tie here
        total = np.float32(float(left) * float(right) + float(total))
    spec = MatmulSpec(F32, 1, 1, 40, (40, 1), (1, 1), packed=False)
    found = multiply(run_kernel, spec, MatmulParameters(1, 1, 1, 1, 4), run_kernel.aligned(a), run_kernel.aligned(b))
    assert found[0, 0] == total


def test_epilogue_adds_bias_scales_and_rectifies_in_place(run_kernel: KernelRunner) -> None:
    rows, columns, depth = 11, 37, 5
    body = (
        Instruction("load", (), F32, (0,)),
        Instruction("load", (), F32, (1,)),
        Instruction("add", (0, 1), F32),
        Instruction("load", (), F32, (2,)),
        Instruction("multiply", (2, 3), F32),
        Instruction("load", (), F32, (3,)),
        Instruction("add", (4, 5), F32),
        Instruction("constant", (), F32, (0.0,)),
        Instruction("maximum", (6, 7), F32),
    )
    operands = (EpilogueOperand(F32, "channel"), EpilogueOperand(F32, "scalar"), EpilogueOperand(F32, "same"))
    spec = MatmulSpec(F32, rows, columns, depth, (depth, 1), (columns, 1), epilogue=Epilogue(operands, body))
    a, b, bias = draw((rows, depth), F32), draw((depth, columns), F32, 1), draw((columns,), F32, 2)
    scale, residual = np.array([0.5], np.float32), draw((rows, columns), F32, 3)
    arrays = [run_kernel.aligned(array) for array in (bias, scale, residual)]
    found = multiply(
        run_kernel, spec, MatmulParameters(4, 2, 8, 2), run_kernel.aligned(a), run_kernel.aligned(b), arrays
    )
    expected = np.maximum((a.astype(np.float64) @ b + bias) * 0.5 + residual, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_epilogue_may_store_another_dtype(run_kernel: KernelRunner) -> None:
    body = (
        Instruction("load", (), F64, (0,)),
        Instruction("cast", (0,), F32, ("float32",)),
        Instruction("load", (), F32, (1,)),
        Instruction("less", (1, 2), dtypes.bool_),
    )
    spec = MatmulSpec(F64, 7, 19, 6, (6, 1), (19, 1), epilogue=Epilogue((EpilogueOperand(F32, "same"),), body))
    a, b, limit = draw((7, 6), F64), draw((6, 19), F64, 1), draw((7, 19), F32, 2)
    found = multiply(
        run_kernel,
        spec,
        MatmulParameters(4, 2, 4, 2),
        run_kernel.aligned(a),
        run_kernel.aligned(b),
        [run_kernel.aligned(limit)],
    )
    np.testing.assert_array_equal(found, (a @ b).astype(np.float32) < limit)


def test_long_epilogue_is_looped_over_rows(run_kernel: KernelRunner) -> None:
    body = (
        Instruction("load", (), F32, (0,)),
        Instruction("load", (), F32, (1,)),
        Instruction("add", (0, 1), F32),
        Instruction("logistic", (2,), F32),
        Instruction("load", (), F32, (2,)),
        Instruction("multiply", (3, 4), F32),
    )
    operands = (EpilogueOperand(F32, "channel"), EpilogueOperand(F32, "same"))
    spec = MatmulSpec(F32, 23, 37, 5, (5, 1), (37, 1), epilogue=Epilogue(operands, body))
    a, b, bias, scale = (draw(shape, F32, i) for i, shape in enumerate(((23, 5), (5, 37), (37,), (23, 37))))
    arrays = [run_kernel.aligned(array) for array in (bias, scale)]
    found = multiply(
        run_kernel, spec, MatmulParameters(4, 2, 8, 2), run_kernel.aligned(a), run_kernel.aligned(b), arrays
    )
    expected = scale / (1 + np.exp(-(a.astype(np.float64) @ b + bias)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
