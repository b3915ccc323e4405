"""Convolutions and both gradients: values against loops over taps in float64, and the same bits for every choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.kernels.conftest import KernelRunner
from tests.tiers import tiered
from trainer.engine.graph import dtypes, half
from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Epilogue, EpilogueOperand, Instruction
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Direction
from trainer.engine.targets.cpu.machine import AVX512, NARROW
from trainer.engine.targets.cpu.templates import convolution, weight_gradient
from trainer.engine.targets.cpu.templates.convolution import ConvolutionParameters
from trainer.engine.targets.cpu.templates.weight_gradient import WeightGradientParameters

F32, F64 = dtypes.float32, dtypes.float64
NONE = ((0, 0), (0, 0))
ONE = ((1, 1), (1, 1))

# images, channels, spatial, filters, window, strides, padding, dilation, groups
GEOMETRIES = {
    "same 3x3": (2, 3, (9, 11), 20, (3, 3), (1, 1), ONE, (1, 1), 1),
    "stride 2 on 7x7": (1, 16, (7, 7), 32, (3, 3), (2, 2), ONE, (1, 1), 1),
    "1x1": (2, 5, (8, 6), 7, (1, 1), (1, 1), NONE, (1, 1), 1),
    "1x1 stride 2": (2, 3, (10, 10), 5, (1, 1), (2, 2), NONE, (1, 1), 1),
    "everything odd": (2, 6, (13, 10), 12, (3, 2), (2, 3), ((2, 1), (0, 1)), (2, 1), 2),
    "4x4 stride 2": (2, 4, (8, 8), 6, (4, 4), (2, 2), ONE, (1, 1), 1),
    "depthwise": (1, 8, (6, 6), 8, (3, 3), (1, 1), ONE, (1, 1), 8),
    "stride beyond window": (1, 2, (9, 9), 3, (2, 2), (3, 3), NONE, (1, 1), 1),
    "dilation and stride": (1, 2, (9, 9), 3, (3, 3), (3, 3), NONE, (2, 2), 1),
    "one channel": (3, 1, (12, 12), 9, (5, 5), (1, 1), NONE, (1, 1), 1),
    "dilated same": (1, 4, (7, 6), 5, (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2), 1),
    "no pixel meets a tap": (2, 2, (1, 1), 2, (1, 1), (1, 2), ((0, 0), (1, 0)), (1, 1), 2),
    "padding beyond image": (1, 2, (2, 3), 4, (3, 3), (1, 1), ((3, 3), (3, 3)), (1, 1), 1),
}
QUICK = ("same 3x3", "stride 2 on 7x7", "1x1", "everything odd", "no pixel meets a tap")
FORWARD_CHOICES = [
    ConvolutionParameters(2, 3, 1, 2, 4, 3, 1, copy=True),
    ConvolutionParameters(1, 4, 3, 3, 5, 8, 3, unroll=3, copy=True, pixel_padding=3),
    ConvolutionParameters(1, 14, 2, 1, 3, 28, 2, trim=True),
    ConvolutionParameters(3, 4, 1, 1, 3, 8, 2, unroll=2, trim=True),
]
WEIGHT_CHOICES = [
    WeightGradientParameters(28, 1, 1, 2),
    WeightGradientParameters(5, 3, 3, 3, copy=True),
    WeightGradientParameters(9, 2, 1, 4, copy=True, pixel_padding=5),
    WeightGradientParameters(2, 1, 1, 2, packed=True),
    WeightGradientParameters(1, 2, 3, 4, packed=True),
    WeightGradientParameters(4, 1, 2, 1, packed=True),
]


def specification(name: str, direction: Direction, dtype: DType = F32, **fields: Any) -> ConvolutionSpec:
    images, channels, spatial, filters, window, strides, padding, dilation, groups = GEOMETRIES[name]
    return ConvolutionSpec(
        dtype, direction, images, channels, spatial, filters, window, strides, padding, dilation, groups, **fields
    )


def draw(spec: ConvolutionSpec, seed: int = 0) -> list[np.ndarray]:
    """x[N,C,H,W], w[K,C/groups,R,S], y[N,K,P,Q]."""
    generator = np.random.default_rng(seed)
    shapes = (
        (spec.images, spec.channels, *spec.spatial),
        (spec.filters, spec.channels // spec.groups, *spec.window),
        (spec.images, spec.filters, *spec.output_spatial),
    )
    return [generator.standard_normal(shape).astype(spec.dtype.storage) for shape in shapes]


def trilinear(
    spec: ConvolutionSpec, x: np.ndarray | None = None, w: np.ndarray | None = None, y: np.ndarray | None = None
) -> np.ndarray:
    """The derivative of sum(y * conv(x, w)) by the one that is None, in float64, tap by tap."""
    (rows, columns), (low, left) = spec.output_spatial, (spec.padding[0][0], spec.padding[1][0])
    padded_shape = [extent + sum(pads) for extent, pads in zip(spec.spatial, spec.padding, strict=True)]
    padded = np.zeros((spec.images, spec.channels, *padded_shape))
    inside = np.s_[:, :, low : low + spec.spatial[0], left : left + spec.spatial[1]]
    if x is not None:
        padded[inside] = x
    kernel = np.zeros((spec.filters, spec.channels // spec.groups, *spec.window)) if w is None else w.astype(float)
    output = np.zeros((spec.images, spec.filters, rows, columns)) if y is None else y.astype(float)
    for group in range(spec.groups):
        c = np.s_[group * spec.channels // spec.groups : (group + 1) * spec.channels // spec.groups]
        k = np.s_[group * spec.filters // spec.groups : (group + 1) * spec.filters // spec.groups]
        for r, s in np.ndindex(*spec.window):
            top, start = r * spec.dilation[0], s * spec.dilation[1]
            i = np.s_[top : top + (rows - 1) * spec.strides[0] + 1 : spec.strides[0]]
            j = np.s_[start : start + (columns - 1) * spec.strides[1] + 1 : spec.strides[1]]
            if y is None:
                output[:, k] += np.einsum("nchw,kc->nkhw", padded[:, c, i, j], kernel[k, :, r, s])
            elif x is None:
                padded[:, c, i, j] += np.einsum("nkhw,kc->nchw", output[:, k], kernel[k, :, r, s])
            else:
                kernel[k, :, r, s] = np.einsum("nchw,nkhw->kc", padded[:, c, i, j], output[:, k])
    if y is None:
        return output
    return padded[inside] if x is None else kernel


def channels_last(array: np.ndarray) -> np.ndarray:
    return array.transpose(0, 2, 3, 1)


def correlate(
    run_kernel: KernelRunner,
    spec: ConvolutionSpec,
    parameters: Any,
    source: np.ndarray,
    weights: np.ndarray,
    operands: Sequence[np.ndarray] = (),
) -> np.ndarray:
    """The forward pass or the input gradient through the kernels, in logical axes; tasks run last to first."""
    stored = run_kernel.aligned(weights.transpose(spec.weight_order))
    if spec.packed:
        packing = convolution.pack_spec(spec)
        packed = run_kernel.empty([packing.size], spec.dtype.storage)
        run_kernel(packing.render("pack"), "pack", [stored, packed, *packing.words], range(packing.tasks))
        stored = packed
    forward = spec.direction == "forward"
    shape = (
        spec.images,
        *(spec.output_spatial if forward else spec.spatial),
        spec.filters if forward else spec.channels,
    )
    output = run_kernel.empty(shape, spec.epilogue.output(spec.dtype).storage)
    arrays = [run_kernel.aligned(channels_last(source)), stored, output, *operands]
    tasks = reversed(range(convolution.TEMPLATE.tasks(spec, parameters)))
    scratch = convolution.TEMPLATE.scratch_bytes(spec, parameters)
    words = convolution.words(spec)
    run_kernel(
        convolution.TEMPLATE.render(spec, parameters, "correlate"), "correlate", [*arrays, *words], tasks, scratch
    )
    return output.transpose(0, 3, 1, 2)


def weigh(
    run_kernel: KernelRunner,
    spec: ConvolutionSpec,
    parameters: Any,
    x: np.ndarray,
    y: np.ndarray,
    operands: Sequence[np.ndarray] = (),
    prologue: Sequence[np.ndarray] = (),
) -> np.ndarray:
    """The weight gradient through the kernels, in logical axes."""
    parts = run_kernel.empty([weight_gradient.totals_of(spec).size], spec.dtype.storage)
    arrays = [run_kernel.aligned(channels_last(x)), run_kernel.aligned(channels_last(y)), parts, *prologue]
    tasks = reversed(range(weight_gradient.TEMPLATE.tasks(spec, parameters)))
    scratch = weight_gradient.TEMPLATE.scratch_bytes(spec, parameters)
    words = weight_gradient.words(spec)
    run_kernel(weight_gradient.TEMPLATE.render(spec, parameters, "weigh"), "weigh", [*arrays, *words], tasks, scratch)
    output = parts
    sums = weight_gradient.totals_of(spec)
    if sums.is_needed:
        output = run_kernel.empty([parts.size // weight_gradient.pixel_blocks(spec).groups], spec.dtype.storage)
        run_kernel(sums.render("combine"), "combine", [parts, output, *operands, *sums.words], range(sums.tasks))
    shape = (*spec.window, spec.channels // spec.groups, spec.filters)
    return output.reshape(shape).transpose(3, 2, 0, 1)


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
def test_correlation_equals_loops_whatever_the_parameters(
    run_kernel: KernelRunner, name: str, direction: Direction
) -> None:
    spec = specification(name, direction)
    x, w, y = draw(spec)
    forward = direction == "forward"
    source, expected = (x, trilinear(spec, x=x, w=w)) if forward else (y, trilinear(spec, w=w, y=y))
    found = correlate(run_kernel, spec, defaults.choose(spec), source, w)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    others = [replace(spec, packed=False)] if forward else []
    for other, parameters in [(spec, choice) for choice in FORWARD_CHOICES] + [(o, FORWARD_CHOICES[0]) for o in others]:
        assert correlate(run_kernel, other, parameters, source, w).tobytes() == found.tobytes(), parameters


@pytest.mark.parametrize("name", ["same 3x3", "everything odd"])
@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
def test_correlation_in_float64_with_weights_in_their_logical_order(
    run_kernel: KernelRunner, name: str, direction: Direction
) -> None:
    spec = specification(name, direction, F64, weight_order=(0, 1, 2, 3))
    x, w, y = draw(spec)
    source, expected = (x, trilinear(spec, x=x, w=w)) if direction == "forward" else (y, trilinear(spec, w=w, y=y))
    found = correlate(run_kernel, spec, defaults.choose(spec), source, w)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_weight_gradient_equals_loops_whatever_the_parameters(run_kernel: KernelRunner, name: str) -> None:
    spec = specification(name, "weight_gradient")
    x, _, y = draw(spec)
    found = weigh(run_kernel, spec, defaults.choose(spec), x, y)
    np.testing.assert_allclose(found, trilinear(spec, x=x, y=y), rtol=1e-4, atol=1e-4)
    for parameters in WEIGHT_CHOICES:
        assert weigh(run_kernel, spec, parameters, x, y).tobytes() == found.tobytes(), parameters


def test_weight_gradient_of_many_blocks_adds_them_in_order(run_kernel: KernelRunner) -> None:
    spec = ConvolutionSpec(F32, "weight_gradient", 3, 16, (20, 20), 33, (3, 3), padding=ONE)
    blocks = weight_gradient.pixel_blocks(spec)
    assert blocks.groups > 1
    x, _, y = draw(spec)
    found = weigh(run_kernel, spec, defaults.choose(spec), x, y)
    np.testing.assert_allclose(found, trilinear(spec, x=x, y=y), rtol=1e-4, atol=1e-3)
    for parameters in WEIGHT_CHOICES:
        assert weigh(run_kernel, spec, parameters, x, y).tobytes() == found.tobytes(), parameters


def test_weight_gradient_of_wide_rows_of_many_channels_cuts_them(run_kernel: KernelRunner) -> None:
    spec = ConvolutionSpec(F32, "weight_gradient", 1, 1024, (4, 300), 5, (3, 3), padding=ONE)
    blocks = weight_gradient.pixel_blocks(spec)
    assert blocks.block[2] < blocks.whole[2]
    x, _, y = draw(spec)
    found = weigh(run_kernel, spec, defaults.choose(spec), x, y)
    np.testing.assert_allclose(found, trilinear(spec, x=x, y=y), rtol=1e-4, atol=1e-3)


def test_pixel_blocks_cover_every_pixel_once_and_know_nothing_of_parameters() -> None:
    for images, spatial, window in [(8, (56, 56), (3, 3)), (7, (7, 7), (3, 3)), (3, (14, 13), (1, 1))]:
        spec = ConvolutionSpec(F32, "weight_gradient", images, 8, spatial, 16, window)
        blocks = weight_gradient.pixel_blocks(spec)
        rows, columns = spec.output_spatial
        assert np.prod(blocks.whole) == images * rows * columns
        assert 1 <= blocks.groups <= weight_gradient.MOST_GROUPS
        assert blocks.groups * blocks.blocks_per_group >= np.prod(blocks.counts)


RECTIFIED = (
    Instruction("load", (), F32, (0,)),
    Instruction("load", (), F32, (1,)),
    Instruction("add", (0, 1), F32),
    Instruction("load", (), F32, (2,)),
    Instruction("add", (2, 3), F32),
    Instruction("constant", (), F32, (0.0,)),
    Instruction("maximum", (4, 5), F32),
)


@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
@pytest.mark.parametrize("name", ["same 3x3", "everything odd", "stride beyond window"])
def test_epilogue_of_bias_residual_and_rectifier(run_kernel: KernelRunner, name: str, direction: Direction) -> None:
    operands = (EpilogueOperand(F32, "channel"), EpilogueOperand(F32, "same"))
    spec = specification(name, direction, epilogue=Epilogue(operands, RECTIFIED))
    x, w, y = draw(spec)
    forward = direction == "forward"
    source, plain = (x, trilinear(spec, x=x, w=w)) if forward else (y, trilinear(spec, w=w, y=y))
    bias = np.linspace(-1, 1, plain.shape[1], dtype=np.float32)
    residual = np.random.default_rng(1).standard_normal(plain.shape).astype(np.float32)
    arrays = [run_kernel.aligned(bias), run_kernel.aligned(channels_last(residual))]
    found = correlate(run_kernel, spec, defaults.choose(spec), source, w, arrays)
    expected = np.maximum(plain + bias[:, None, None] + residual, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["same 3x3", "everything odd"])
def test_epilogue_of_the_weight_gradient_is_a_gradient_step(run_kernel: KernelRunner, name: str) -> None:
    body = (
        Instruction("load", (), F32, (0,)),
        Instruction("load", (), F32, (1,)),
        Instruction("multiply", (0, 1), F32),
        Instruction("load", (), F32, (2,)),
        Instruction("subtract", (3, 2), F32),
    )
    operands = (EpilogueOperand(F32, "scalar"), EpilogueOperand(F32, "same"))
    spec = specification(name, "weight_gradient", epilogue=Epilogue(operands, body))
    x, w, y = draw(spec)
    rate, stored = run_kernel.aligned(np.array([0.1], np.float32)), run_kernel.aligned(w.transpose(2, 3, 1, 0))
    found = weigh(run_kernel, spec, defaults.choose(spec), x, y, [rate, stored])
    expected = w - np.float32(0.1) * trilinear(spec, x=x, y=y)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["same 3x3", "everything odd"])
def test_narrow_vectors_give_the_same_bits(
    run_kernel: KernelRunner, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, weight = specification(name, "forward"), specification(name, "weight_gradient")
    x, w, y = draw(forward)
    wide = [
        correlate(run_kernel, forward, defaults.choose(forward, AVX512), x, w),
        weigh(run_kernel, weight, defaults.choose(weight, AVX512), x, y),
    ]
    monkeypatch.setattr(run_kernel, "target", native.host_target(narrow=True))
    narrow = [
        correlate(run_kernel, forward, defaults.choose(forward, NARROW), x, w),
        weigh(run_kernel, weight, defaults.choose(weight, NARROW), x, y),
    ]
    assert [array.tobytes() for array in narrow] == [array.tobytes() for array in wide]


@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
@pytest.mark.parametrize(
    ("shape", "is_copied", "is_trimmed"),
    [
        ((2, 1024, (5, 7), 1024, (1, 1)), True, False),
        ((2, 17, (5, 14), 19, (3, 3), (1, 1), ((1, 1), (1, 1))), False, True),
    ],
    ids=["pixels on pages of their own", "narrow image"],
)
def test_candidates_of_narrow_machines_give_the_same_bits(
    run_kernel: KernelRunner, direction: Direction, shape: tuple[Any, ...], is_copied: bool, is_trimmed: bool
) -> None:
    spec = ConvolutionSpec(F32, direction, *shape)
    x, w, y = draw(spec)
    source, chosen = x if direction == "forward" else y, defaults.candidates(spec, NARROW)
    assert (chosen[0].copy, chosen[0].trim) == (is_copied, is_trimmed)
    reference = correlate(run_kernel, spec, defaults.choose(spec, AVX512), source, w).tobytes()
    for parameters in chosen[:4]:
        assert correlate(run_kernel, spec, parameters, source, w).tobytes() == reference, parameters


SCALED = Epilogue(
    (
        EpilogueOperand(F32, "channel"),
        EpilogueOperand(F32, "channel"),
        EpilogueOperand(F32, "same"),
        EpilogueOperand(F32, "scalar"),
    ),
    (
        *(Instruction("load", (), F32, (number,)) for number in range(5)),
        Instruction("multiply", (0, 1), F32),
        Instruction("add", (5, 2), F32),
        Instruction("add", (6, 3), F32),
        Instruction("maximum", (7, 4), F32),
    ),
)
"""Nothing that it gives is zero, least of all where its input is: padding that went through it would show."""


def scaled(source: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """What `SCALED` makes of an array [N, C, H, W], and its operands as kernels take them."""
    generator = np.random.default_rng(7)
    scale, shift = (generator.standard_normal((1, source.shape[1], 1, 1)).astype(np.float32) for _ in range(2))
    added = generator.standard_normal(source.shape).astype(np.float32)
    least = np.float32(0.25)
    operands = [scale.ravel(), shift.ravel(), np.ascontiguousarray(channels_last(added)), np.array([least])]
    return np.maximum(source * scale + shift + added, least), operands


@pytest.mark.parametrize("name", tiered(GEOMETRIES, QUICK))
@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
def test_a_prologue_gives_the_bits_of_its_work_done_before(
    run_kernel: KernelRunner, name: str, direction: Direction
) -> None:
    spec = specification(name, direction)
    x, w, y = draw(spec)
    source = x if direction == "forward" else y
    made, operands = scaled(source)
    expected = correlate(run_kernel, spec, defaults.choose(spec), made, w)
    with_prologue = replace(spec, prologue=SCALED)
    for parameters in (defaults.choose(with_prologue), *FORWARD_CHOICES):
        found = correlate(run_kernel, with_prologue, parameters, source, w, operands)
        assert found.tobytes() == expected.tobytes(), parameters


@pytest.mark.parametrize("name", tiered(GEOMETRIES, QUICK))
def test_a_prologue_of_the_weight_gradient_gives_the_bits_of_its_work_done_before(
    run_kernel: KernelRunner, name: str
) -> None:
    spec = specification(name, "weight_gradient")
    x, _, y = draw(spec)
    made, operands = scaled(x)
    expected = weigh(run_kernel, spec, defaults.choose(spec), made, y)
    with_prologue = replace(spec, prologue=SCALED)
    for parameters in (defaults.choose(with_prologue), *WEIGHT_CHOICES):
        found = weigh(run_kernel, with_prologue, parameters, x, y, prologue=operands)
        assert found.tobytes() == expected.tobytes(), parameters


PACKED = {
    "remainders": (3, 17, (13, 11), 35, (3, 3), (1, 1), ONE, (1, 1), 1),
    "1x1": (3, 19, (17, 16), 40, (1, 1), (1, 1), NONE, (1, 1), 1),
    "1x1 stride 2": (2, 13, (25, 20), 20, (1, 1), (2, 2), NONE, (1, 1), 1),
    "1x1 stride 3, padded": (2, 8, (9, 10), 17, (1, 1), (3, 3), ONE, (1, 1), 1),
    "strides and dilation": (4, 22, (12, 33), 18, (3, 4), (2, 3), ((2, 1), (0, 4)), (2, 1), 2),
    "stride 2, many blocks": (3, 9, (61, 45), 16, (5, 5), (2, 2), ((2, 2), (2, 2)), (1, 1), 1),
    "stride 2, columns cut": (2, 512, (3, 530), 7, (3, 3), (1, 2), ONE, (1, 1), 1),
}


@pytest.mark.parametrize("kind", ["float32", "float64", "pairs", "prologue"])
@pytest.mark.parametrize("name", tiered(PACKED, ("remainders", "strides and dilation")))
def test_candidates_of_narrow_machines_have_the_bits_of_what_reads_in_place(
    run_kernel: KernelRunner, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    spec = ConvolutionSpec(F64 if kind == "float64" else F32, "weight_gradient", *PACKED[name])
    x, _, y = draw(spec)
    made, operands = scaled(x) if kind == "prologue" else (x, [])
    if kind == "pairs":
        spec = replace(spec, images=2 * spec.images, pairs=True)
        x, y = (half.to_bits(np.stack([each, each[::-1]], -1)).view(np.float32)[..., 0] for each in (x, y))
        made = x
    expected = weigh(run_kernel, spec, WeightGradientParameters(2, 1, 1, 1), made, y)
    if kind == "prologue":
        spec = replace(spec, prologue=SCALED)
    monkeypatch.setattr(run_kernel, "target", native.host_target(narrow=True))
    candidates = defaults.candidates(spec, NARROW)
    for parameters in dict.fromkeys([*candidates, *(replace(each, packed=True) for each in candidates)]):
        assert weigh(run_kernel, spec, parameters, x, y, prologue=operands).tobytes() == expected.tobytes(), parameters


def test_a_prologue_works_beside_an_epilogue(run_kernel: KernelRunner) -> None:
    """The epilogue's operands come first in the argument block."""
    bias = Epilogue(
        (EpilogueOperand(F32, "channel"),),
        (
            Instruction("load", (), F32, (0,)),
            Instruction("load", (), F32, (1,)),
            Instruction("add", (0, 1), F32),
        ),
    )
    spec = specification("same 3x3", "forward", epilogue=bias)
    x, w, _ = draw(spec)
    made, operands = scaled(x)
    added = np.random.default_rng(5).standard_normal(spec.filters).astype(np.float32)
    expected = correlate(run_kernel, spec, defaults.choose(spec), made, w, [added])
    spec = replace(spec, prologue=SCALED)
    found = correlate(run_kernel, spec, defaults.choose(spec), x, w, [added, *operands])
    assert found.tobytes() == expected.tobytes()
