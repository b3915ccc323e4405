"""bfloat16 summed by tiles: a class of its own, chosen by the user, refused where the processor has no AMX.

A whole step runs here with AMX's instructions emulated (`tests/engine/targets/kernels/amx.py`), on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.engine.movement import deviation
from tests.engine.targets.kernels import amx
from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.engine.program.work import KernelSource
from trainer.engine.targets.cpu import defaults, features, native
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.loaded_kernels import Kernels
from trainer.engine.targets.cpu.machine import AVX512
from trainer.engine.targets.cpu.target import CpuTarget
from trainer.learner import SGD

MACHINE = replace(AVX512, bfloat16=bool(native.host_features().get("avx512bf16")), bfloat16_tiles=True)


class EmulatingKernels(Kernels):
    """Compiles AMX's instructions as functions."""

    def _cached(self, source: KernelSource) -> tuple[str, bytes] | None:
        return super()._cached(emulated(source))

    def _compiled(self, source: KernelSource) -> tuple[str, bytes]:
        return super()._compiled(emulated(source))


def emulated(source: KernelSource) -> KernelSource:
    """The kernel with functions in place of AMX's instructions."""
    return KernelSource(("emulated", source.key), lambda name: amx.emulated(source.render(name)))


def emulating(choose: Callable[..., Any] = defaults.choose) -> CpuDevice:
    """A device that sums bfloat16 by tiles."""
    device = CpuDevice(threads=1, choose=lambda spec: choose(spec, MACHINE))
    device.target = CpuTarget(MACHINE, bfloat16="tiles")
    device.kernels = EmulatingKernels(device.kernels.target)
    return device


def last_choice(spec: Any, machine: Any) -> Any:
    return defaults.candidates(spec, machine)[-1]


def three_steps(device: CpuDevice, steps: int = 3) -> tuple[list[np.ndarray], Any]:
    """Losses and weights of a small network in bfloat16 after three steps, and the traced step."""
    with engine.device(device):
        network = nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 40, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(40 * 4 * 5, 21), nn.Tanh(), nn.Linear(21, 5),
        ).set_seed(0)  # fmt: skip
        optimizer = SGD(network, 0.1)
        images = np.random.default_rng(0).standard_normal((20, 3, 9, 11), dtype=np.float32)

        def step(image: engine.Tensor, labels: engine.Tensor) -> engine.Tensor:
            with engine.autocast("bfloat16"):
                loss = nn.cross_entropy(network(image), labels)
            optimizer.minimize(loss)
            return loss

        traced = engine.trace(step)
        losses = [np.asarray(traced(images, np.arange(20) % 5)) for _ in range(steps)]
        return [*losses, *(np.asarray(value) for value in network.state_dict().values())], traced


@pytest.fixture(scope="module")
def by_tiles() -> tuple[list[np.ndarray], Any]:
    return three_steps(emulating())


def test_a_step_is_close_to_that_of_pairs_but_not_the_same(by_tiles: tuple[list[np.ndarray], Any]) -> None:
    pairs, plain = three_steps(CpuDevice(threads=1))
    found, traced = by_tiles
    np.testing.assert_allclose(found[:3], pairs[:3], rtol=1e-3)
    before, _ = three_steps(CpuDevice(threads=1), steps=0)
    assert all(deviation(*states) < 0.01 for states in zip(before, pairs[3:], found[3:], strict=True))
    assert any(a.tobytes() != b.tobytes() for a, b in zip(pairs, found, strict=True))
    assert "bfloat16 by tiles" in engine.explain(traced, level=1)
    assert "bfloat16" not in engine.explain(plain, level=1)


def test_other_tiles_leave_the_bits_alone(by_tiles: tuple[list[np.ndarray], Any]) -> None:
    found, _ = three_steps(emulating(last_choice))
    for a, b in zip(by_tiles[0], found, strict=True):
        assert a.tobytes() == b.tobytes()


def test_the_shape_alone_decides_what_is_summed_by_tiles(by_tiles: tuple[list[np.ndarray], Any]) -> None:
    """From eight pairs along a run on: not the first convolution, nor the last layer's input gradient, nor
    convolutions' weight gradients.
    """
    launches = by_tiles[1].programs[0].launches
    specs = [launch.tunable.spec for launch in launches if launch.tunable is not None]
    assert {spec.tiled for spec in specs if spec.pairs} == {True, False}
    for spec in specs:
        if hasattr(spec, "steps"):
            assert spec.tiled == (spec.pairs and spec.steps >= 8)


@pytest.mark.skipif(bool(native.host_features().get("amx-bf16")), reason="this processor has AMX")
def test_a_processor_without_amx_is_refused() -> None:
    with pytest.raises(TrainerError, match=r"summed by tiles[\s\S]*no AMX[\s\S]*AMX[\s\S]*bfloat16: pairs"):
        CpuDevice(threads=1, bfloat16="tiles")


def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(TrainerError, match="'pairs' or 'tiles'"):
        CpuDevice(threads=1, bfloat16="quads")  # type: ignore[arg-type]


@pytest.mark.parametrize("permitted", [True, False])
def test_without_the_systems_permission_there_is_no_amx(permitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("avx2", "fma", "amx-tile", "amx-bf16", "amx-int8")
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: dict.fromkeys(names, True))
    monkeypatch.setattr(features, "tiles_permitted", lambda: permitted)
    monkeypatch.delenv("TRAINER_CPU_FEATURES", raising=False)
    found = native.host_features.__wrapped__()
    assert [name for name in names if found[name]] == list(names if permitted else names[:2])


def test_permission_is_what_the_system_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without tiles has none to give, whichever of its features the tests are limited to."""
    monkeypatch.delenv("TRAINER_CPU_FEATURES", raising=False)
    has_tiles = bool(dict(llvm.get_host_cpu_features()).get("amx-tile"))
    found = native.host_features.__wrapped__()
    assert bool(found.get("amx-tile")) is (has_tiles and features.tiles_permitted())
    assert has_tiles or not features.tiles_permitted()
