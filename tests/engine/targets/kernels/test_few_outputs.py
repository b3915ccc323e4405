"""Convolutions to a few channels: values against loops in float64, bits of the general template."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.engine.targets.kernels.conftest import KernelRunner
from tests.engine.targets.kernels.test_convolution import RECTIFIED, channels_last, correlate, draw, trilinear
from trainer.engine.graph import dtypes
from trainer.engine.program.spec import Epilogue, EpilogueOperand
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.machine import AVX512, NARROW
from trainer.engine.targets.cpu.templates import convolution, few_outputs
from trainer.engine.targets.cpu.templates.few_outputs import FewOutputsParameters, FewOutputsSpec

F32, F64 = dtypes.float32, dtypes.float64
SAME = ((1, 1), (1, 1))
SPECS = {
    "to an image": ConvolutionSpec(F32, "forward", 2, 20, (9, 37), 3, (3, 3), (1, 1), SAME),
    "to scores": ConvolutionSpec(F32, "forward", 1, 33, (11, 12), 1, (4, 4), (1, 1), SAME),
    "no padding": ConvolutionSpec(F32, "forward", 1, 16, (5, 40), 2, (3, 2)),
    "dilated": ConvolutionSpec(F32, "forward", 1, 16, (9, 21), 2, (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2)),
    "uneven padding": ConvolutionSpec(F32, "forward", 1, 17, (4, 16), 5, (2, 3), (1, 1), ((3, 0), (0, 4))),
    "from an image": ConvolutionSpec(F32, "input_gradient", 2, 3, (8, 40), 20, (5, 5), (1, 1), ((2, 2), (2, 2))),
    "from an image, stride 2": ConvolutionSpec(F32, "input_gradient", 2, 6, (13, 35), 16, (4, 4), (2, 2), SAME),
    "from an image, odd stride 2": ConvolutionSpec(F32, "input_gradient", 1, 3, (9, 39), 24, (3, 3), (2, 2), SAME),
    "stride beyond window": ConvolutionSpec(F32, "input_gradient", 1, 4, (9, 60), 16, (2, 2), (3, 3)),
}
CHOICES = [FewOutputsParameters(1, 1), FewOutputsParameters(2, 3), FewOutputsParameters(3, 100)]
ORDINARY = {
    "many channels": replace(SPECS["to an image"], filters=9),
    "few inputs": replace(SPECS["to an image"], channels=15),
    "strided": replace(SPECS["to an image"], strides=(2, 2)),
    "narrow": replace(SPECS["to an image"], spatial=(9, 8)),
    "one tap": replace(SPECS["to an image"], window=(1, 1), padding=((0, 0), (0, 0))),
    "weight gradient": replace(SPECS["to an image"], direction="weight_gradient"),
    "more than scratch holds": replace(SPECS["to an image"], channels=2048, spatial=(400, 400)),
}


def of(spec: ConvolutionSpec) -> FewOutputsSpec:
    found = few_outputs.few_outputs(spec)
    assert found is not None
    return found


def correlate_few(
    run_kernel: KernelRunner,
    spec: FewOutputsSpec,
    parameters: FewOutputsParameters,
    source: np.ndarray,
    weights: np.ndarray,
    operands: list[np.ndarray] | None = None,
) -> np.ndarray:
    plain = spec.convolution
    forward = plain.direction == "forward"
    spatial, channels = (plain.output_spatial, plain.filters) if forward else (plain.spatial, plain.channels)
    output = run_kernel.empty((plain.images, *spatial, channels), plain.epilogue.output(plain.dtype).storage)
    stored = run_kernel.aligned(weights.transpose(plain.weight_order))
    if plain.packed:
        packing = convolution.pack_spec(plain)
        packed = run_kernel.empty([packing.size], plain.dtype.storage)
        run_kernel(packing.render("pack"), "pack", [stored, packed, *packing.words], range(packing.tasks))
        stored = packed
    arrays = [run_kernel.aligned(channels_last(source)), stored, output, *(operands or [])]
    tasks, scratch = (
        reversed(range(few_outputs.TEMPLATE.tasks(spec, parameters))),
        few_outputs.TEMPLATE.scratch_bytes(spec, parameters),
    )
    run_kernel(few_outputs.TEMPLATE.render(spec, parameters, "few"), "few", arrays, tasks, scratch)
    return output.transpose(0, 3, 1, 2)


@pytest.mark.parametrize("name", SPECS)
def test_it_has_the_bits_of_the_general_template(run_kernel: KernelRunner, name: str) -> None:
    plain = SPECS[name]
    x, w, y = draw(plain)
    forward = plain.direction == "forward"
    source, expected = (x, trilinear(plain, x=x, w=w)) if forward else (y, trilinear(plain, w=w, y=y))
    general = correlate(run_kernel, plain, defaults.choose(plain), source, w)
    np.testing.assert_allclose(general, expected, rtol=1e-5, atol=1e-4)
    for parameters in [defaults.choose(of(plain)), *CHOICES]:
        found = correlate_few(run_kernel, of(plain), parameters, source, w)
        assert found.tobytes() == general.tobytes(), parameters
    if forward:
        loose = of(replace(plain, packed=False))
        assert correlate_few(run_kernel, loose, CHOICES[1], source, w).tobytes() == general.tobytes()


def test_float64(run_kernel: KernelRunner) -> None:
    plain = replace(SPECS["from an image"], dtype=F64)
    _, w, y = draw(plain)
    found = correlate_few(run_kernel, of(plain), defaults.choose(of(plain)), y, w)
    np.testing.assert_allclose(found, trilinear(plain, w=w, y=y), rtol=1e-12, atol=1e-12)


def test_epilogue(run_kernel: KernelRunner) -> None:
    operands = EpilogueOperand(F32, "channel"), EpilogueOperand(F32, "same")
    plain = replace(SPECS["from an image, stride 2"], epilogue=Epilogue(operands, RECTIFIED))
    _, w, y = draw(plain)
    random = np.random.default_rng(1)
    bias, residual = random.standard_normal(6, np.float32), random.standard_normal((2, 13, 35, 6), np.float32)
    arrays = [run_kernel.aligned(bias), run_kernel.aligned(residual)]
    general = correlate(run_kernel, plain, defaults.choose(plain), y, w, arrays)
    for parameters in [defaults.choose(of(plain)), *CHOICES]:
        assert correlate_few(run_kernel, of(plain), parameters, y, w, arrays).tobytes() == general.tobytes()


def test_narrow_vectors_give_the_same_bits() -> None:
    class Narrow(KernelRunner):
        target = native.host_target(narrow=True)

    plain = SPECS["from an image, odd stride 2"]
    _, w, y = draw(plain)
    wide = correlate_few(KernelRunner(), of(plain), defaults.choose(of(plain), AVX512), y, w)
    assert correlate_few(Narrow(), of(plain), defaults.choose(of(plain), NARROW), y, w).tobytes() == wide.tobytes()


@pytest.mark.parametrize("name", ORDINARY)
def test_what_would_gain_nothing_is_left_to_the_general_template(name: str) -> None:
    assert few_outputs.few_outputs(ORDINARY[name]) is None


@pytest.mark.parametrize("machine", [AVX512, NARROW], ids=["avx512", "narrow"])
@pytest.mark.parametrize("name", SPECS)
def test_accumulators_stay_in_registers_and_scratch_fits(name: str, machine: defaults.Machine) -> None:
    for chosen in defaults.candidates(of(SPECS[name]), machine):
        channels = SPECS[name].filters if SPECS[name].direction == "forward" else SPECS[name].channels
        assert channels * chosen.tile_vectors + chosen.tile_vectors + 1 <= machine.vectors
        assert few_outputs.TEMPLATE.scratch_bytes(of(SPECS[name]), chosen) <= 4 << 20


def test_there_is_a_tile_of_as_many_channels_as_a_few_where_registers_are_fewer() -> None:
    """Eight sums, a vector of pixels and a weight are more than the eight units of AVX2's registers."""
    spec = of(replace(SPECS["to an image"], filters=8))
    assert {parameters.tile_vectors for parameters in defaults.candidates(spec, NARROW)} == {1}
