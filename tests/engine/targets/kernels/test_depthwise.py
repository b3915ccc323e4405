"""Depthwise convolutions and small groups: values against loops in float64, bits of the general templates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.engine.targets.kernels.conftest import KernelRunner
from tests.engine.targets.kernels.test_convolution import RECTIFIED, channels_last, correlate, draw, trilinear, weigh
from tests.tiers import tiered
from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Epilogue, EpilogueOperand
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Direction
from trainer.engine.targets.cpu.machine import NARROW
from trainer.engine.targets.cpu.templates import depthwise, depthwise_weights, weight_gradient
from trainer.engine.targets.cpu.templates.depthwise import DepthwiseParameters, DepthwiseSpec, ExchangedWeights

F32 = dtypes.float32
GEOMETRIES = {  # images, channels, spatial, window, strides, padding, dilation
    "same 3x3": (2, 21, (9, 27), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "same 5x5": (2, 16, (6, 7), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),
    "7x7": (1, 33, (9, 8), (7, 7), (1, 1), ((3, 3), (3, 3)), (1, 1)),
    "stride 2": (2, 24, (13, 14), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    "stride 3, window 2": (1, 5, (10, 11), (2, 2), (3, 3), ((0, 1), (1, 0)), (1, 1)),
    "dilated": (1, 17, (11, 12), (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2)),
    "dilated beyond the image": (1, 16, (3, 4), (3, 3), (1, 1), ((5, 5), (5, 5)), (5, 5)),
    "line 1x7": (1, 40, (4, 19), (1, 7), (1, 1), ((0, 0), (3, 3)), (1, 1)),
    "column 7x1": (1, 40, (19, 4), (7, 1), (1, 1), ((3, 3), (0, 0)), (1, 1)),
    "one pixel": (3, 18, (1, 1), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "no padding, wide": (1, 19, (5, 64), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "many blocks": (3, 20, (30, 30), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
}
GROUPED = {  # further: channels of a group
    "groups of 4": (2, 24, (9, 27), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 4),
    "groups of 2, stride 2": (1, 18, (9, 10), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 2),
    "groups of 8": (2, 40, (6, 7), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 8),
    "groups of 4, even window": (1, 8, (5, 6), (2, 2), (1, 1), ((0, 1), (1, 0)), (2, 1), 4),
}
QUICK = (
    "same 3x3",
    "stride 3, window 2",
    "dilated beyond the image",
    "line 1x7",
    "many blocks",
    "groups of 4, even window",
)
CHOICES = [DepthwiseParameters(3, 2, 1), DepthwiseParameters(14, 100, 2), DepthwiseParameters(1, 3, 9)]


def specification(
    name: str, direction: Direction, dtype: DType = F32, epilogue: Epilogue | None = None
) -> ConvolutionSpec:
    images, channels, spatial, window, strides, padding, dilation, group = GROUPED.get(name) or (*GEOMETRIES[name], 1)
    return ConvolutionSpec(
        dtype, direction, images, channels, spatial, channels, window, strides, padding, dilation, channels // group,
        epilogue=epilogue or Epilogue(),
    )  # fmt: skip


def of(spec: ConvolutionSpec) -> DepthwiseSpec:
    found = depthwise.depthwise(spec)
    assert found is not None
    return found


def correlate_alone(
    run_kernel: KernelRunner,
    spec: DepthwiseSpec,
    parameters: DepthwiseParameters,
    source: np.ndarray,
    weights: np.ndarray,
    operands: list[np.ndarray] | None = None,
) -> np.ndarray:
    plain = spec.convolution
    spatial = plain.output_spatial if plain.direction == "forward" else plain.spatial
    output = run_kernel.empty((plain.images, *spatial, plain.channels), plain.dtype.storage)
    stored = run_kernel.aligned(weights.transpose(plain.weight_order))
    if spec.exchanges:
        exchanged = run_kernel.empty(stored.shape, plain.dtype.storage)
        tasks = range(ExchangedWeights(spec).tasks)
        run_kernel(ExchangedWeights(spec).render("exchange"), "exchange", [stored, exchanged], tasks)
        stored = exchanged
    arrays = [run_kernel.aligned(channels_last(source)), stored, output, *(operands or [])]
    tasks = reversed(range(depthwise.TEMPLATE.tasks(spec, parameters)))
    run_kernel(depthwise.TEMPLATE.render(spec, parameters, "alone"), "alone", arrays, tasks)
    return output.transpose(0, 3, 1, 2)


def weigh_alone(
    run_kernel: KernelRunner, spec: DepthwiseSpec, parameters: DepthwiseParameters, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    plain = spec.convolution
    parts = run_kernel.empty([weight_gradient.totals_of(plain).size], plain.dtype.storage)
    arrays = [run_kernel.aligned(channels_last(x)), run_kernel.aligned(channels_last(y)), parts]
    tasks = reversed(range(depthwise_weights.TEMPLATE.tasks(spec, parameters)))
    scratch = depthwise_weights.TEMPLATE.scratch_bytes(spec, parameters)
    run_kernel(depthwise_weights.TEMPLATE.render(spec, parameters, "weigh"), "weigh", arrays, tasks, scratch)
    output = parts
    sums = weight_gradient.totals_of(plain)
    if sums.is_needed:
        output = run_kernel.empty([parts.size // weight_gradient.pixel_blocks(plain).groups], plain.dtype.storage)
        run_kernel(sums.render("combine"), "combine", [parts, output, *sums.words], range(sums.tasks))
    return output.reshape(*plain.window, spec.group, plain.filters).transpose(3, 2, 0, 1)


@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
@pytest.mark.parametrize("name", tiered([*GEOMETRIES, *GROUPED], QUICK))
def test_it_has_the_bits_of_the_general_template(run_kernel: KernelRunner, name: str, direction: Direction) -> None:
    plain = specification(name, direction)
    x, w, y = draw(plain)
    source, expected = (x, trilinear(plain, x=x, w=w)) if direction == "forward" else (y, trilinear(plain, w=w, y=y))
    general = correlate(run_kernel, plain, defaults.choose(plain), source, w)
    np.testing.assert_allclose(general, expected, rtol=1e-5, atol=1e-5)
    for parameters in [defaults.choose(of(plain)), *CHOICES]:
        found = correlate_alone(run_kernel, of(plain), parameters, source, w)
        assert found.tobytes() == general.tobytes(), parameters


@pytest.mark.parametrize("name", tiered([*GEOMETRIES, *GROUPED], QUICK))
def test_its_weight_gradient_has_the_bits_of_the_general_template(run_kernel: KernelRunner, name: str) -> None:
    plain = specification(name, "weight_gradient")
    x, _, y = draw(plain)
    general = weigh(run_kernel, plain, defaults.choose(plain), x, y)
    np.testing.assert_allclose(general, trilinear(plain, x=x, y=y), rtol=1e-4, atol=1e-4)
    for parameters in [defaults.choose(of(plain)), *CHOICES]:
        assert weigh_alone(run_kernel, of(plain), parameters, x, y).tobytes() == general.tobytes(), parameters


@pytest.mark.parametrize("direction", ["forward", "input_gradient", "weight_gradient"])
def test_float64(run_kernel: KernelRunner, direction: Direction) -> None:
    plain = specification("same 3x3", direction, dtypes.float64)
    x, w, y = draw(plain)
    parameters = defaults.choose(of(plain))
    if direction == "weight_gradient":
        found, expected = weigh_alone(run_kernel, of(plain), parameters, x, y), trilinear(plain, x=x, y=y)
    else:
        source = x if direction == "forward" else y
        found = correlate_alone(run_kernel, of(plain), parameters, source, w)
        expected = trilinear(plain, x=x, w=w) if direction == "forward" else trilinear(plain, w=w, y=y)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["same 3x3", "stride 3, window 2", "groups of 4"])
@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
def test_epilogue_of_bias_residual_and_rectifier(run_kernel: KernelRunner, direction: Direction, name: str) -> None:
    epilogue = Epilogue((EpilogueOperand(F32, "channel"), EpilogueOperand(F32, "same")), RECTIFIED)
    plain = specification(name, direction, epilogue=epilogue)
    x, w, y = draw(plain)
    source, values = (x, trilinear(plain, x=x, w=w)) if direction == "forward" else (y, trilinear(plain, w=w, y=y))
    bias = np.linspace(-1, 1, values.shape[1], dtype=np.float32)
    residual = np.random.default_rng(1).standard_normal(values.shape).astype(np.float32)
    arrays = [run_kernel.aligned(bias), run_kernel.aligned(channels_last(residual))]
    found = correlate_alone(run_kernel, of(plain), defaults.choose(of(plain)), source, w, arrays)
    np.testing.assert_allclose(found, np.maximum(values + bias[:, None, None] + residual, 0), rtol=1e-5, atol=1e-5)


def test_narrow_vectors_give_the_same_bits(run_kernel: KernelRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    forward, weight = (specification("same 3x3", each) for each in ("forward", "weight_gradient"))
    x, w, y = draw(forward)

    def both(machine: tuple[object, ...] = ()) -> list[bytes]:
        first, second = (defaults.choose(of(each), *machine) for each in (forward, weight))
        found = correlate_alone(run_kernel, of(forward), first, x, w), weigh_alone(run_kernel, of(weight), second, x, y)
        return [each.tobytes() for each in found]

    wide = both()
    monkeypatch.setattr(run_kernel, "target", native.host_target(narrow=True))
    assert both((NARROW,)) == wide


def test_only_small_groups_are_its_own() -> None:
    plain = specification("same 3x3", "forward")
    assert depthwise.depthwise(plain) is not None
    others = [
        replace(plain, groups=7),
        replace(plain, channels=96, filters=96, groups=2),
        replace(plain, filters=42),
        replace(plain, window=(1, 1)),
        replace(plain, weight_order=(0, 1, 2, 3)),
        replace(plain, channels=1, filters=1, groups=1),
    ]
    assert [depthwise.depthwise(other) for other in others] == [None] * 6
