"""Guarded memory, and that the operands which a template declares are those that its launches have."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.engine.autotune.training import Training
from tests.engine.networks.training import Pix2Pix, Residual
from trainer.engine.graph import dtypes
from trainer.engine.targets.cpu import defaults, native, templates
from trainer.engine.targets.cpu.bench import ALIGNMENT, Bench, Guarded
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.executable import Program
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.lowering.launch import Address, Launch, Tunable
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec
from trainer.engine.targets.cpu.templates.depthwise import DepthwiseSpec, depthwise
from trainer.engine.targets.cpu.templates.few_outputs import FewOutputsSpec


@pytest.mark.parametrize("nbytes", [0, 1, 60, 64, mmap.PAGESIZE, mmap.PAGESIZE + 4])
def test_guarded_memory_is_aligned_and_ends_at_its_guard_page(nbytes: int) -> None:
    memory = Guarded(nbytes)
    assert memory.bytes.size == nbytes and memory.bytes.ctypes.data % ALIGNMENT == 0
    assert -(memory.bytes.ctypes.data + nbytes) % mmap.PAGESIZE < ALIGNMENT or nbytes == 0
    memory.bytes[:] = 0
    assert memory.is_intact


def test_a_write_beside_guarded_memory_shows() -> None:
    for place in (-1, 60):
        memory = Guarded(60)
        (memory._around[0] if place < 0 else memory._around[1])[-1 if place < 0 else 0] = 0
        assert not memory.is_intact


def test_a_bench_expects_what_numpy_computes() -> None:
    spec = MatmulSpec(dtypes.float32, 20, 33, 17, (17, 1), (33, 1), packed=False)
    bench = Bench(Tunable(templates.MATMUL, spec, defaults.choose(spec)), native.host_target())
    a, b = (bench._memory[i].bytes.view(np.float32).astype(np.float64) for i in (0, 1))
    expected = a.reshape(20, 17) @ b.reshape(17, 33)
    np.testing.assert_allclose(bench._expected[0].view(np.float32).reshape(20, 33), expected, rtol=1e-4, atol=1e-5)
    for parameters in defaults.candidates(spec)[1:]:
        assert bench.attempt(parameters).reason == ""


def assert_declared(launches: Sequence[Launch]) -> None:
    """Each template's operands are the words of its launches, and lie within their buffers."""
    tunable = [launch for launch in launches if launch.tunable]
    assert tunable
    for launch in tunable:
        assert launch.tunable is not None
        template, spec = launch.tunable.template, launch.tunable.spec
        operands, words = template.operands(spec), template.words(spec)
        assert launch.words[len(operands) :] == [*words]
        for operand, word in zip(operands, launch.words, strict=not words):
            assert isinstance(word, Address) and operand.dtype == word.buffer.dtype
            assert operand.elements <= word.buffer.size - word.byte_offset // operand.dtype.itemsize
            assert word.buffer in (launch.writes if operand.written else launch.reads)
            if operand.written:
                assert operand.elements == word.buffer.size


def test_declared_operands_are_those_of_the_launches() -> None:
    training = Training(CpuDevice(threads=1))
    training.step()
    assert_declared(training.program.launches)


@pytest.mark.full
@pytest.mark.parametrize(
    ("training", "numerics"),
    [
        (Residual(blocks=(1, 1), width=16, size=32, batch=2, steps=1), "exact"),
        (Residual(blocks=(1, 1), width=32, size=64, batch=2, steps=1), "fast"),
        (Pix2Pix(filters=4, depth=5, size=32, steps=1), "exact"),
    ],
    ids=["residual", "residual-fast", "pix2pix"],
)
def test_declared_operands_are_those_of_whole_networks(
    training: Residual | Pix2Pix, numerics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches: list[Launch] = []

    def keep(program: Program) -> None:
        launches.extend(program.launches)

    monkeypatch.setattr("trainer.engine.targets.cpu.describe.report", keep)
    training.run(CpuDevice(threads=1, numerics=numerics), np.float32)
    assert_declared(launches)


PADDED = ((1, 1), (1, 1))
CONVOLUTION = ConvolutionSpec(dtypes.float32, "forward", 2, 6, (7, 9), 20, (3, 3), padding=PADDED)
POINTWISE = replace(CONVOLUTION, channels=32, window=(1, 1), padding=((0, 0), (0, 0)))
PAIRED = replace(CONVOLUTION, pairs=True, packed=True)
FEW = ConvolutionSpec(dtypes.float32, "input_gradient", 2, 3, (20, 34), 18, (4, 4), (2, 2), PADDED)
ALONE = replace(CONVOLUTION, channels=20, groups=20)
GROUPED = replace(CONVOLUTION, channels=24, filters=24, groups=6)


def alone(spec: ConvolutionSpec) -> DepthwiseSpec:
    found = depthwise(spec)
    assert found is not None
    return found


SPECS = {
    "matmul": (templates.MATMUL, MatmulSpec(dtypes.float32, 13, 21, 6, (6, 1), (21, 1), (2,), (78,), (0,))),
    "forward": (templates.CONVOLUTION, CONVOLUTION),
    "input_gradient": (templates.CONVOLUTION, replace(CONVOLUTION, direction="input_gradient", strides=(2, 2))),
    "weight_gradient": (templates.WEIGHT_GRADIENT, replace(CONVOLUTION, direction="weight_gradient")),
    "forward of one pixel": (templates.CONVOLUTION, POINTWISE),
    "weight_gradient of one pixel": (templates.WEIGHT_GRADIENT, replace(POINTWISE, direction="weight_gradient")),
    "matmul of many columns": (templates.MATMUL, MatmulSpec(dtypes.float32, 30, 200, 20, (20, 1), (200, 1))),
    "matmul in pairs": (
        templates.MATMUL,
        MatmulSpec(dtypes.float32, 13, 21, 6, (6, 1), (21, 1), pairs=True, packed=True),
    ),
    "forward in pairs": (templates.CONVOLUTION, PAIRED),
    "input_gradient in pairs": (templates.CONVOLUTION, replace(PAIRED, direction="input_gradient")),
    "weight_gradient in pairs": (templates.WEIGHT_GRADIENT, replace(PAIRED, direction="weight_gradient")),
    "winograd": (templates.WINOGRAD, WinogradSpec(CONVOLUTION, 4)),
    "winograd 2x2 input_gradient": (
        templates.WINOGRAD,
        WinogradSpec(replace(CONVOLUTION, direction="input_gradient"), 2),
    ),
    "few outputs": (templates.FEW_OUTPUTS, FewOutputsSpec(FEW)),
    "depthwise": (templates.DEPTHWISE, alone(ALONE)),
    "depthwise input_gradient": (templates.DEPTHWISE, alone(replace(ALONE, direction="input_gradient"))),
    "depthwise weight_gradient": (templates.DEPTHWISE_WEIGHTS, alone(replace(ALONE, direction="weight_gradient"))),
    "groups of 4": (templates.DEPTHWISE, alone(GROUPED)),
    "groups of 4 input_gradient": (templates.DEPTHWISE, alone(replace(GROUPED, direction="input_gradient"))),
    "groups of 4 weight_gradient": (templates.DEPTHWISE_WEIGHTS, alone(replace(GROUPED, direction="weight_gradient"))),
}


@pytest.mark.parametrize("name", SPECS)
def test_candidates_stay_within_their_memory_and_give_the_same_bits(name: str) -> None:
    template, spec = SPECS[name]
    bench = Bench(Tunable(template, spec, defaults.choose(spec)), native.host_target())
    assert bench.default.reason == "" and bench.default.seconds > 0
    for parameters in defaults.candidates(spec)[1:5]:
        assert bench.attempt(parameters).reason == ""


def test_a_kernel_is_written_alike_from_the_specification_that_stands_for_it() -> None:
    plain = ConvolutionSpec(
        dtypes.float32, "forward", 1, 32, (14, 14), 48, (3, 3), (1, 1), ((1, 1), (1, 1)), packed=True
    )
    for template, direction in (
        (templates.CONVOLUTION, "forward"),
        (templates.CONVOLUTION, "input_gradient"),
        (templates.WEIGHT_GRADIENT, "weight_gradient"),
    ):
        for size, images in product((7, 14, 56), (1, 2, 5, 6, 8, 9, 16)):
            spec = replace(plain, direction=direction, spatial=(size, size), images=images)
            for parameters in defaults.candidates(spec)[:4]:
                assert template.render(template.coded(spec), parameters, "k") == template.render(spec, parameters, "k")
        sizes = {template.coded(replace(plain, direction=direction, images=images)).images for images in range(20, 40)}
        assert len(sizes) <= 2, "one code for batches whose last block is full, one for the others"
