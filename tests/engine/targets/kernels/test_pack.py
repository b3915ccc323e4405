"""Panels of a right-hand operand hold what NumPy finds at the same places, however tasks are cut and lines stored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.engine.targets.kernels.conftest import KernelRunner
from trainer.engine.graph import dtypes
from trainer.engine.targets.cpu.kernels import pack
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.pack import ROWS, STRIP, PackSpec
from trainer.engine.targets.cpu.kernels.tile import lanes_of
from trainer.engine.targets.cpu.templates import contraction, convolution
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec

F32, F64 = dtypes.float32, dtypes.float64


def convolved(direction: str, channels: int, filters: int, pairs: bool = False) -> PackSpec:
    layer = ConvolutionSpec(F32, direction, 1, channels, (9, 9), filters, (3, 3), (2, 2), ((1, 1), (1, 1)), pairs=pairs)
    return convolution.pack_spec(replace(layer, packed=True))


def product(depth: int, columns: int, strides: tuple[int, int], dtype: dtypes.DType = F32) -> PackSpec:
    spec = MatmulSpec(dtype, 4, columns, depth, (depth, 1), strides, (3,), (4 * depth,), (depth * columns + 5,))
    return contraction.pack_spec(replace(spec, packed=True))


SPECS = {
    "rows beyond a task": product(2 * ROWS + 1, 40, (40, 1)),
    "panels beyond a task": product(3, 16 * STRIP + 17, (16 * STRIP + 17, 1)),
    "one narrow panel": product(ROWS, 5, (5, 1)),
    "whole panels": product(ROWS + 1, 48, (48, 1)),
    "float64": product(ROWS + 2, 8 * STRIP + 3, (8 * STRIP + 3, 1), F64),
    "transposed": product(37, 50, (1, 37)),
    "forward": convolved("forward", 20, 40),
    "input gradient": convolved("input_gradient", 40, 20),
    "pairs": convolved("forward", 20, 40, pairs=True),
}


def places(spec: PackSpec) -> np.ndarray:
    """The source element of each packed one: [matrix, depth, column]."""

    def grid(levels: tuple[tuple[int, int], ...]) -> np.ndarray:
        total = np.zeros(1, np.int64)
        for extent, stride in levels:
            total = (total[:, None] + stride * np.arange(extent)).reshape(-1)
        return total

    depth = np.concatenate([block.offset + grid(block.levels) for block in spec.blocks])
    columns = spec.column_stride * np.arange(spec.columns)
    return grid(spec.batch)[:, None, None] + depth[:, None] + columns


@pytest.mark.parametrize("streamed", [False, True], ids=["", "streamed"])
@pytest.mark.parametrize("name", SPECS)
def test_panels_hold_what_lies_at_their_places(
    run_kernel: KernelRunner, name: str, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = SPECS[name]
    if streamed:
        monkeypatch.setattr(pack, "STREAMED_BYTES", 1)
    found, lanes = places(spec), lanes_of(spec.dtype)
    size = int(found.max()) + spec.pair_stride + 1
    unsigned = np.uint16 if spec.pair_stride else np.uint32 if spec.dtype == F32 else np.uint64
    source = np.random.default_rng(0).integers(1, np.iinfo(unsigned).max, size, unsigned)
    values = source[found]
    if spec.pair_stride:
        values = values | source[found + spec.pair_stride].astype(np.uint32) << 16
    padded = np.zeros((*values.shape[:2], spec.panels * lanes), values.dtype)
    padded[..., : spec.columns] = values
    expected = padded.reshape(*values.shape[:2], spec.panels, lanes).swapaxes(1, 2)
    packed = run_kernel.empty([spec.size], spec.dtype.storage)
    tasks = reversed(range(spec.tasks))
    run_kernel(spec.render("pack"), "pack", [run_kernel.aligned(source), packed, *spec.words], tasks)
    np.testing.assert_array_equal(packed.view(values.dtype), expected.reshape(-1))


def test_one_kernel_packs_operands_of_any_size() -> None:
    assert product(37, 50, (1, 37)).render("pack") == product(1000, 3, (1, 1000)).render("pack")
    assert convolved("input_gradient", 40, 20).render("pack") == convolved("input_gradient", 96, 64).render("pack")
    assert product(37, 50, (1, 37)).words != product(1000, 3, (1, 1000)).words
