"""Products by AMX: of pairs bit by bit the sums that `tile_registers.py` states. Without the processor its instructions
are emulated over memory (`amx.py`); the text of the kernels is the same.

Values have exponents so close that float64 holds each product and each sum before rounding exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.kernels import amx, test_pairs
from tests.engine.targets.kernels.conftest import KernelRunner
from tests.engine.targets.kernels.test_contraction import multiply
from tests.engine.targets.kernels.test_convolution import correlate
from tests.engine.targets.kernels.test_pairs import add, draw, places
from trainer.engine.graph import dtypes, half
from trainer.engine.program.spec import Epilogue, EpilogueOperand, Instruction
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.kernels import tile_registers
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.tile_registers import Rows
from trainer.engine.targets.cpu.machine import AVX512
from trainer.engine.targets.cpu.templates import contraction, convolution
from trainer.engine.targets.cpu.templates.contraction import MatmulParameters, MatmulSpec
from trainer.engine.targets.cpu.templates.convolution import ConvolutionParameters

HAS_TILES = bool(native.host_features().get("amx-bf16"))
MACHINE = replace(AVX512, bfloat16=True, int8=True, bfloat16_tiles=True, int8_tiles=True)
WAYS = [
    "emulated",
    pytest.param("native", marks=pytest.mark.skipif(not HAS_TILES, reason="this processor has no AMX")),
]


@pytest.fixture(params=WAYS)
def run(request: pytest.FixtureRequest, run_kernel: KernelRunner, monkeypatch: pytest.MonkeyPatch) -> KernelRunner:
    """Runs kernels by the processor's instructions, or by functions that do what they do."""
    if request.param == "emulated":
        monkeypatch.setattr(run_kernel, "rewrite", amx.emulated)
    return run_kernel


def plus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One addition in float32."""
    return (a.astype(np.float64) + b.astype(np.float64)).astype(np.float32)


def blocks(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`total` and the products of a run: `a` and `b` broadcast against each other, the run along their first axis."""
    for start in range(0, len(a), 32):
        even, odd = (np.zeros_like(total) for _ in range(2))
        for k in range(start, min(start + 32, len(a)), 2):
            even, odd = add(even, a[k], b[k]), add(odd, a[k + 1], b[k + 1])
        total = plus(total, plus(even, odd))
    return total


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return blocks(np.zeros((len(a), b.shape[1]), np.float32), a.T[:, :, None], b[:, None, :])


def product_spec(m: int, k: int, n: int, **fields: Any) -> MatmulSpec:
    return MatmulSpec(dtypes.float32, m, n, k, (k, 1), (n, 1), pairs=True, tiled=True, **fields)


OTHERS = [
    MatmulParameters(5, 3, 10, 3, tiles=True),
    MatmulParameters(47, 1, 47, 2, pack_rows=True, tiles=True),
    MatmulParameters(23, 4, 46, 4, tiles=True),
]


@pytest.mark.parametrize(("m", "k", "n"), [(1, 2, 1), (3, 30, 17), (33, 32, 5), (29, 98, 70), (64, 64, 48)])
def test_a_matrix_product_is_chains_of_even_and_odd_terms_by_blocks(run: KernelRunner, m: int, k: int, n: int) -> None:
    a, b = draw((m, k)), draw((k, n), 1)
    spec = product_spec(m, k, n)
    stored = [run.aligned(half.to_bits(each)) for each in (a, b)]
    expected = product(a, b)
    for parameters in (*defaults.candidates(spec, MACHINE)[:3], *OTHERS):
        np.testing.assert_array_equal(multiply(run, spec, parameters, stored[0], stored[1]), expected)


def test_the_class_is_not_that_of_pairs() -> None:
    """Or there would be no need for it, and these tests would show nothing."""
    a, b = draw((5, 64)), draw((64, 7), 1)
    assert (product(a, b) != test_pairs.product(a, b)).any()


def test_an_epilogue_works_on_the_sums(run: KernelRunner) -> None:
    a, b, residual = draw((21, 40)), draw((40, 35), 1), draw((21, 35), 2)
    body = (
        Instruction("load", (), dtypes.float32, (0,)),
        Instruction("load", (), dtypes.float32, (1,)),
        Instruction("add", (0, 1), dtypes.float32),
        Instruction("cast", (2,), dtypes.bfloat16, (dtypes.bfloat16,)),
    )
    spec = product_spec(21, 40, 35, epilogue=Epilogue((EpilogueOperand(dtypes.float32, "same"),), body))
    stored = [run.aligned(half.to_bits(each)) for each in (a, b)]
    found = multiply(run, spec, defaults.choose(spec, MACHINE), stored[0], stored[1], [run.aligned(residual)])
    np.testing.assert_array_equal(found, half.to_bits(plus(product(a, b), residual)))


GEOMETRIES = {
    # images, channels, image, filters, window, strides, padding, dilation, groups
    "7x7 from few channels": (2, 4, (9, 11), 18, (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1),
    "one pixel": (1, 2, (1, 1), 2, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "1x1 of pixels in one row": (3, 34, (6, 5), 66, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "3x3 on 7x7": (2, 64, (7, 7), 18, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "1x7, stride 2": (1, 6, (8, 19), 6, (1, 7), (1, 2), ((0, 0), (3, 3)), (1, 1), 1),
    "groups, dilated, padded on one side": (2, 72, (9, 8), 12, (3, 2), (2, 1), ((2, 0), (0, 1)), (2, 2), 2),
    "padding beyond the image": (1, 32, (2, 3), 20, (3, 3), (1, 1), ((3, 3), (3, 3)), (1, 1), 1),
}
SHAPES = [
    ConvolutionParameters(2, 3, 1, 2, 4, 3, 1, copy=True, tiles=True),
    ConvolutionParameters(1, 20, 2, 1, 3, 20, 4, copy=True, pixel_padding=3, tiles=True),
    ConvolutionParameters(3, 4, 2, 1, 3, 8, 2, trim=True, tiles=True),
]


def specification(name: str, direction: Any) -> ConvolutionSpec:
    return ConvolutionSpec(dtypes.float32, direction, *GEOMETRIES[name], pairs=True, tiled=True)


def forward(name: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    groups, results = GEOMETRIES[name][-1], []
    for xg, wg in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        total: Any = None
        for r, s, pixels in places(GEOMETRIES[name], xg):
            a, b = pixels.transpose(1, 0, 2, 3)[:, :, None], wg[:, :, r, s].T[:, None, :, None, None]
            shape = np.broadcast_shapes(a.shape[1:], b.shape[1:])
            total = blocks(np.zeros(shape, np.float32) if total is None else total, a, b)
        results.append(total)
    return np.concatenate(results, 1)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_convolution_sums_each_tap_by_blocks_of_channels(run: KernelRunner, name: str) -> None:
    spec = specification(name, "forward")
    x = draw((spec.images, spec.channels, *spec.spatial))
    w = draw((spec.filters, spec.channels // spec.groups, *spec.window), 1)
    expected = forward(name, x, w)
    for parameters in (*defaults.candidates(spec, MACHINE)[:2], *SHAPES):
        found = correlate(run, spec, parameters, half.to_bits(x), half.to_bits(w))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_an_input_gradient_sums_each_pixel_by_blocks_of_filters(run: KernelRunner, name: str) -> None:
    """Pixels of dy ascending are taps descending."""
    spec = specification(name, "input_gradient")
    dy = draw((spec.images, spec.filters, *spec.output_spatial))
    w = draw((spec.filters, spec.channels // spec.groups, *spec.window), 1)
    padded = (spec.spatial[i] + sum(spec.padding[i]) for i in (0, 1))
    whole = np.zeros((spec.images, spec.channels, *padded), np.float32)
    for total, dyg, wg in zip(*(np.split(*each) for each in ((whole, spec.groups, 1), (dy, spec.groups, 1))),
                              np.split(w, spec.groups, 0), strict=True):  # fmt: skip
        for r in reversed(range(spec.window[0])):
            for s in reversed(range(spec.window[1])):
                rows, columns = (
                    slice(t * spec.dilation[i], t * spec.dilation[i] + (dy.shape[2 + i] - 1) * spec.strides[i] + 1,
                          spec.strides[i])
                    for i, t in enumerate((r, s))
                )  # fmt: skip
                a, b = dyg.transpose(1, 0, 2, 3)[:, :, None], wg[:, :, r, s][:, None, :, None, None]
                total[:, :, rows, columns] = blocks(total[:, :, rows, columns], a, b)
    (top, _), (left, _) = spec.padding
    expected = whole[:, :, top : top + spec.spatial[0], left : left + spec.spatial[1]]
    for parameters in (*defaults.candidates(spec, MACHINE)[:2], SHAPES[0]):
        found = correlate(run, spec, parameters, half.to_bits(dy), half.to_bits(w))
        np.testing.assert_array_equal(found, expected)


def test_subnormal_operands_and_sums_count_as_zero(run: KernelRunner) -> None:
    """Operands, products and sums around the least normal number, 2^-126; the sum of exact terms is rounded once."""
    a = np.array([[2.0**-130, 2.0**-100, 2.0**-60, 2.0**-63]], np.float32)
    b = np.array([[2.0**100], [2.0**-30], [2.0**-66], [2.0**-63]], np.float32)
    spec = product_spec(1, 4, 1)
    stored = [run.aligned(half.to_bits(each)) for each in (a, b)]
    # even: a subnormal operand, then 2^-126; odd: 2^-130 is flushed, then 2^-126
    found = multiply(run, spec, defaults.choose(spec, MACHINE), stored[0], stored[1])
    np.testing.assert_array_equal(found, np.array([[2.0**-125]], np.float32))


def assembled(ir: str) -> str:
    assert native.compile_object(ir, amx.TARGET)
    return native.assembly(ir, amx.TARGET)


@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
@pytest.mark.parametrize("name", ["3x3 on 7x7", "7x7 from few channels"])
def test_convolutions_of_pairs_become_instructions_of_amx(name: str, direction: str) -> None:
    spec = specification(name, direction)
    for parameters in (*defaults.candidates(spec, MACHINE)[:2], SHAPES[0]):
        text = assembled(convolution.TEMPLATE.render(spec, parameters, "kernel"))
        for instruction in ("ldtilecfg", "tilezero", "tileloadd", "tdpbf16ps", "tilestored", "tilerelease"):
            assert instruction in text
        assert "vfmadd" not in text


@pytest.mark.parametrize(("fields", "instruction"), [
    ({"pairs": True, "tiled": True}, "tdpbf16ps"),
    ({"quads": "signed"}, "tdpbssd"),
    ({"quads": "unsigned"}, "tdpbusd"),
])  # fmt: skip
def test_products_become_instructions_of_amx(fields: dict[str, Any], instruction: str) -> None:
    spec = MatmulSpec(dtypes.float32 if "pairs" in fields else dtypes.int32, 45, 75, 66, (66, 1), (75, 1), **fields)
    for parameters in defaults.candidates(spec, MACHINE)[:3]:
        text = assembled(contraction.TEMPLATE.render(spec, parameters, "kernel"))
        assert instruction in text and "vpdpbusd" not in text


def test_the_cost_model_uses_tiles_where_the_class_or_the_processor_says_so() -> None:
    pairs = MatmulSpec(dtypes.float32, 64, 64, 64, (64, 1), (64, 1), pairs=True)
    quads = MatmulSpec(dtypes.int32, 64, 64, 64, (64, 1), (64, 1), quads="signed")
    assert not any(each.tiles for each in defaults.candidates(pairs, MACHINE))
    assert all(each.tiles for each in defaults.candidates(replace(pairs, tiled=True), MACHINE))
    assert all(each.tiles for each in defaults.candidates(quads, MACHINE))
    assert not any(each.tiles for each in defaults.candidates(quads, replace(AVX512, int8=True)))


def test_parameters_of_another_class_are_refused() -> None:
    spec = product_spec(8, 32, 16)
    for wrong, tiles in ((spec, False), (replace(spec, tiled=False), True)):
        with pytest.raises(ValueError, match="exactly where the specification says so"):
            contraction.TEMPLATE.render(wrong, MatmulParameters(8, 1, 8, 1, tiles=tiles), "kernel")


def test_rows_are_cut_into_equal_parts_at_equal_distances() -> None:
    row = [3 * pixel for pixel in range(28)]
    assert tile_registers.evenly_spaced(row) == [Rows(0, 14, 3), Rows(14, 14, 3)]
    lines = [100 * line + pixel for line in range(2) for pixel in range(7)]
    assert tile_registers.evenly_spaced(lines) == [Rows(0, 7, 1), Rows(7, 7, 1)]
    assert tile_registers.evenly_spaced([5]) == [Rows(0, 1, 0)]


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 29, 33, 64])
@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
@pytest.mark.parametrize("steps", [1, 15, 16, 17, 48])
def test_registers_are_shared_only_by_what_has_one_shape(rows: int, vectors: int, steps: int) -> None:
    found = tile_registers.passes(range(rows), vectors, steps)
    assert sum(part.count for parts, _ in found for part in parts) == rows
    for parts, registers in found:
        shapes = registers.shapes
        assert len(shapes) <= tile_registers.REGISTERS
        used = [register for row in registers.sums for register in row]
        assert len(used) == len(set(used)) == len(parts) * vectors
        kinds = [(registers.left, registers.right, 16)] * (steps >= 16)
        kinds += [(registers.left_tail, registers.right_tail, steps % 16)] * bool(steps % 16)
        for left, right, depth in kinds:
            for number, part in enumerate(parts):
                assert shapes[left[number]] == (part.count, 4 * depth)
                for vector in range(vectors):
                    assert shapes[right[vector]] == (depth, 64)
                    assert shapes[registers.sums[number][vector]] == (part.count, 64)
            assert not set(used) & {*left, *right}


def test_a_configuration_is_what_the_instruction_reads() -> None:
    """Palette 1; from byte 16 the bytes of a row, 16 bits each; from byte 48 the rows (Intel SDM, LDTILECFG)."""
    ((_, registers),) = tile_registers.passes(range(20), 1, 16)
    content = registers.configuration
    assert len(content) == 64 and content[0] == 1 and not any(content[1:16])
    widths, rows = np.frombuffer(content[16:48], "<u2"), content[48:]
    assert widths.tolist() == [64] * 5 + [0] * 11
    assert list(rows) == [10, 10, 10, 10, 16] + [0] * 11
