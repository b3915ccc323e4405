"""Products and convolutions of 8-bit integers: exact, whoever multiplies, and scaled back to 8 bits with saturation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.cpu.objects import TARGETS, wanted_from_outside
from tests.engine.targets.kernels import amx
from tests.engine.targets.kernels.conftest import KernelRunner
from tests.engine.targets.kernels.test_contraction import multiply
from tests.engine.targets.kernels.test_convolution import correlate, trilinear
from tests.tiers import tiered
from trainer.engine.graph.dtypes import DType, float32, int8, int32, uint8
from trainer.engine.program.spec import Epilogue, EpilogueOperand, Instruction
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.products import Quads
from trainer.engine.targets.cpu.machine import AVX512, NARROW, Machine
from trainer.engine.targets.cpu.templates import contraction
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec

KRSC = (0, 2, 3, 1)
LEFT: dict[Quads, type] = {"signed": np.int8, "unsigned": np.uint8}
WAYS: dict[str, tuple[Machine, str]] = {
    "vnni": (replace(AVX512, int8=True), ""),
    "widened": (AVX512, ""),
    "narrow": (NARROW, "narrow"),
    "tiles": (replace(AVX512, int8=True, int8_tiles=True), ""),
}


@pytest.fixture(params=["vnni", pytest.param("widened", marks=pytest.mark.full), "narrow", "tiles"])
def way(request: pytest.FixtureRequest, run_kernel: KernelRunner, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine whose parameters are used, its kernels compiled for it."""
    machine, narrow = WAYS[request.param]
    if machine.int8_tiles:  # emulated where the processor lacks them
        if not native.host_features().get("amx-int8"):
            monkeypatch.setattr(run_kernel, "rewrite", amx.emulated)
    elif machine.int8 and not native.host_features().get("avx512vnni"):
        pytest.skip("this processor has no AVX-512-VNNI")
    monkeypatch.setattr(run_kernel, "target", native.host_target(narrow=bool(narrow)))
    return machine


def draw(shape: tuple[int, ...], kind: type, seed: int = 0) -> np.ndarray:
    """All values of an 8-bit type, the extreme ones often."""
    limits = np.iinfo(kind)
    random = np.random.default_rng(seed)
    values = random.integers(limits.min, limits.max + 1, shape)
    return np.where(random.random(shape) < 0.2, random.choice([limits.min, limits.max], shape), values).astype(kind)


def product_spec(rows: int, columns: int, depth: int, quads: Quads, **fields: Any) -> MatmulSpec:
    """a[rows, depth] as it lies, b as [columns, depth]."""
    return MatmulSpec(int32, rows, columns, depth // 4, (depth // 4, 1), (1, depth // 4), quads=quads, **fields)


def product(run: KernelRunner, spec: MatmulSpec, machine: Machine, a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """By the first three candidates."""
    stored = run.aligned(a).view(np.int32), run.aligned(np.ascontiguousarray(b.T)).view(np.int32)
    return [multiply(run, spec, parameters, *stored) for parameters in defaults.candidates(spec, machine)[:3]]


@pytest.mark.parametrize("quads", LEFT)
@pytest.mark.parametrize(("rows", "columns", "depth"), [(1, 1, 4), (13, 10, 8), (29, 100, 64), (16, 48, 132)])
def test_products_equal_numpy(
    run_kernel: KernelRunner, way: Machine, quads: Quads, rows: int, columns: int, depth: int
) -> None:
    a, b = draw((rows, depth), LEFT[quads]), draw((depth, columns), np.int8, 1)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    for found in product(run_kernel, product_spec(rows, columns, depth, quads), way, a, b):
        np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("quads", LEFT)
def test_sums_beyond_32_bits_wrap(run_kernel: KernelRunner, way: Machine, quads: Quads) -> None:
    limits, depth = np.iinfo(LEFT[quads]), 140_000
    a, b = np.full((2, depth), limits.min or limits.max, LEFT[quads]), np.full((depth, 3), -128, np.int8)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert np.abs(exact).min() >= 1 << 31
    for found in product(run_kernel, product_spec(2, 3, depth, quads), way, a, b)[:1]:
        np.testing.assert_array_equal(found, exact.astype(np.int32))


GEOMETRIES = {  # images, channels, spatial, filters, window, strides, padding, dilation, groups
    "3x3": (2, 12, (9, 8), 20, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "3x3 of many channels on 7x7": (1, 128, (7, 7), 33, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "1x1": (2, 64, (5, 6), 17, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "stride 2, dilated, padded on one side": (1, 8, (13, 11), 5, (3, 2), (2, 2), ((2, 0), (0, 3)), (2, 1), 1),
    "groups": (1, 24, (6, 6), 9, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 3),
}


@pytest.mark.parametrize("quads", LEFT)
@pytest.mark.parametrize("name", tiered(GEOMETRIES, ("3x3", "stride 2, dilated, padded on one side", "groups")))
def test_convolutions_equal_numpy(run_kernel: KernelRunner, way: Machine, quads: Quads, name: str) -> None:
    images, channels, spatial, filters, window, strides, padding, dilation, groups = GEOMETRIES[name]
    fields = spatial, filters, window, strides, padding, dilation, groups
    x = draw((images, channels, *spatial), LEFT[quads])
    w = draw((filters, channels // groups, *window), np.int8, 1)
    exact = trilinear(ConvolutionSpec(float32, "forward", images, channels, *fields), x=x, w=w)
    spec = ConvolutionSpec(int32, "forward", images, channels // 4, *fields, weight_order=KRSC, quads=quads)
    for parameters in defaults.candidates(spec, way)[:3]:
        found = correlate(run_kernel, spec, parameters, quads_of_channels(x), quads_of_channels(w))
        np.testing.assert_array_equal(found, exact)


def quads_of_channels(array: np.ndarray) -> np.ndarray:
    """[A, C, H, W] of bytes as [A, C / 4, H, W] of quads."""
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).view(np.int32).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("stored", [int8, uint8], ids=str)
def test_epilogue_scales_and_goes_back_to_8_bits_with_saturation(
    run_kernel: KernelRunner, way: Machine, stored: DType
) -> None:
    rows, columns, depth = 7, 37, 36
    body = (
        Instruction("load", (), int32, (0,)),
        Instruction("cast", (0,), float32, (float32,)),
        Instruction("load", (), float32, (1,)),
        Instruction("multiply", (1, 2), float32),
        Instruction("round", (3,), float32),
        Instruction("cast", (4,), stored, (stored,)),
    )
    epilogue = Epilogue((EpilogueOperand(float32, "channel"),), body)
    spec = product_spec(rows, columns, depth, "signed", epilogue=epilogue)
    a, b = draw((rows, depth), np.int8), draw((depth, columns), np.int8, 1)
    scales = np.geomspace(1e-3, 0.1, columns).astype(np.float32)
    operands = run_kernel.aligned(a).view(np.int32), run_kernel.aligned(np.ascontiguousarray(b.T)).view(np.int32)
    found = multiply(run_kernel, spec, defaults.choose(spec, way), *operands, [run_kernel.aligned(scales)])
    scaled = np.rint((a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32) * scales)
    limits = np.iinfo(stored.storage)
    assert (scaled > limits.max).any() and (scaled < limits.min).any()
    np.testing.assert_array_equal(found, np.clip(scaled, limits.min, limits.max))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("quads", LEFT)
def test_widened_products_compile_elsewhere(quads: Quads, target: str) -> None:
    spec = product_spec(16, 48, 64, quads)
    ir = contraction.TEMPLATE.render(spec, defaults.choose(spec, NARROW), "kernel")
    assert wanted_from_outside(ir, target) == set()


@pytest.mark.parametrize(
    ("way", "feature", "instruction"), [("vnni", "avx512vnni", "vpdpbusd"), ("tiles", "amx-int8", "tdpbssd")]
)
def test_the_processors_instruction_is_used(way: str, feature: str, instruction: str) -> None:
    if not native.host_features().get(feature):
        pytest.skip(f"this processor has no {feature}")
    spec = product_spec(32, 64, 64, "signed")
    ir = contraction.TEMPLATE.render(spec, defaults.choose(spec, WAYS[way][0]), "kernel")
    assert instruction in native.assembly(ir)
