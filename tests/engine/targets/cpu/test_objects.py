"""Every kernel compiles for processors with AVX2 and for ARM with NEON, to objects that need nothing from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.networks.networks import RESNET_50
from tests.engine.networks.training import Pix2Pix, Residual
from tests.engine.samples import samples
from tests.engine.targets.cpu.objects import TARGETS, recording_device, wanted_from_outside
from trainer import engine
from trainer.engine import Tensor, nn
from trainer.engine.graph.primitives import TABLE
from trainer.engine.program.spec import Instruction
from trainer.engine.targets.cpu import runtime
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.kernels import elementwise
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.ir.operand import Operand
from trainer.learner import Adam

F32 = engine.float32


@pytest.mark.parametrize("target", TARGETS)
def test_an_element_wise_kernel(target: str) -> None:
    body = (Instruction("load", (), F32, (0,)), Instruction("tanh", (0,), F32), Instruction("multiply", (0, 1), F32))
    operand = Operand(F32, "contiguous")
    kernel = LoopKernel(1, (operand,), body, ((2, operand),))
    assert wanted_from_outside(elementwise.render(kernel, "kernel"), target) == set()


def test_a_function_of_another_library_is_seen() -> None:
    body = "  %y = call float @expf(float %x)\n  ret float %y\n"
    ir = f"declare float @expf(float)\ndefine float @f(float %x) {{\n{body}}}\n"
    assert wanted_from_outside(ir, "aarch64 NEON") == {"expf"}


@pytest.mark.parametrize(("machine", "target"), [("aarch64", "aarch64 NEON"), ("x86_64", "x86-64 AVX2")])
def test_the_runtime_of_the_pool(machine: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert wanted_from_outside(runtime.runtime_ir(), target) == set()


def perceptron(device: CpuDevice) -> None:
    """A training step of a small classifier by Adam."""
    with engine.device(device):
        net = nn.Sequential(nn.Linear(20, 33), nn.GELU(), nn.Linear(33, 5)).set_seed(0)
        optimizer = Adam(net, 1e-3)

        def step(x: Tensor, labels: Tensor) -> Tensor:
            loss = nn.cross_entropy(net(x), labels)
            optimizer.minimize(loss)
            return loss

        engine.trace(step)(np.ones((7, 20), np.float32), np.zeros(7, np.int64)).item()


NETWORKS: dict[str, Callable[[CpuDevice], Any]] = {
    "perceptron": perceptron,
    "residual": lambda device: Residual((1, 1, 1, 1), width=8, size=64, batch=4, steps=1).run(device, np.float32),
    "resnet-50": lambda device: Residual(RESNET_50, width=64, size=64, batch=3, steps=1).run(device, np.float32),
    "pix2pix": lambda device: Pix2Pix(filters=8, depth=8, size=256, steps=1).run(device, np.float32),
}


@pytest.mark.full
@pytest.mark.parametrize("name", NETWORKS)
def test_the_kernels_of_a_training_step(name: str) -> None:
    device, kernels = recording_device()
    NETWORKS[name](device)
    assert len(kernels.sources) > 5
    for source, label in kernels.sources.items():
        ir = source.render("kernel")
        for target in TARGETS:
            assert wanted_from_outside(ir, target) == set(), f"{label} for {target}"


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(set(TABLE) - {"buffer"}))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_the_kernels_of_a_primitive(name: str, data: st.DataObject) -> None:
    device, kernels = recording_device()
    device.evaluate([data.draw(samples(name)).node()])
    for source, label in kernels.sources.items():
        ir = source.render("kernel")
        for target in TARGETS:
            assert wanted_from_outside(ir, target) == set(), f"{label} for {target}"
    device.pool.close()
