"""The memory report: what is alive at the peak, and the copies that a program makes for a layout alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.engine.networks.networks import ResNet, UNet
from tests.engine.program.works import work
from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.storage import Storage
from trainer.engine.profiling.memory import MemoryReport
from trainer.engine.program.layout_copies import layout_copies
from trainer.engine.program.work import Buffer, KernelSource, Work
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner import SGD


def report_of(network: nn.Module, shape: tuple[int, ...]) -> MemoryReport:
    """One step of SGD on the squares of the network's outputs, on a device without poison."""
    optimizer = SGD(network, 0.1)

    def step(x: engine.Tensor) -> engine.Tensor:
        loss = engine.mean(engine.square(network(x)))
        optimizer.minimize(loss)
        return loss

    traced = engine.trace(step)
    with engine.device(CpuDevice(threads=2, poison=False)):
        traced(np.random.default_rng(0).standard_normal(shape, dtype=np.float32)).item()
        return engine.memory_report(traced)


@pytest.fixture(scope="module")
def two_layers() -> MemoryReport:
    return report_of(nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 50)), (20, 30))


def test_it_adds_up_what_is_alive_and_what_lies_outside_the_arena(two_layers: MemoryReport) -> None:
    assert two_layers.peak == sum(each.nbytes for each in two_layers.held) <= two_layers.arena
    assert two_layers.states == 4 * (30 * 40 + 40 + 40 * 50 + 50) + 8 + 8  # weights, biases, steps, the rate's scale
    assert two_layers.results == 4
    assert all(each.first <= two_layers.launch <= each.last for each in two_layers.held)


def test_a_held_buffer_names_its_shape_and_its_maker(two_layers: MemoryReport) -> None:
    (hidden,) = (each for each in two_layers.held if each.shape == (20, 40) and each.label == "matmul")
    assert hidden.made_by == "matmul 20x30x40" and hidden.module == "0" and hidden.nbytes == 4 * 20 * 40
    assert f"float32 20x40, launches {hidden.first}-{hidden.last}: matmul 20x30x40 in 0" in str(two_layers)


def test_a_step_that_was_not_called_has_no_report() -> None:
    with pytest.raises(TrainerError, match="no memory plan"):
        engine.memory_report(engine.trace(lambda x: x + 1))


def test_a_residual_network_moves_only_its_input_and_the_weights_that_are_read_across() -> None:
    """The picture comes row-major; data gradients read weights with their columns apart; nothing else is moved but the
    terms of sums over pixels that lie behind a pooling (two norms; their order is the logical one).
    """
    kinds = Counter(each.label for each in report_of(ResNet((1, 1, 1, 1), 16, 10), (2, 3, 64, 64)).layout_copies)
    assert kinds.keys() <= {"relayout", "pack", "terms", "reshape"}
    assert kinds["relayout"] == 1


def test_a_u_net_moves_only_its_input_and_weights() -> None:
    copies = report_of(UNet(8, 5), (1, 3, 64, 64)).layout_copies
    kinds = Counter(each.label for each in copies)
    assert kinds.keys() <= {"relayout", "pack", "result"}
    assert kinds["relayout"] <= 2
    assert all(each.of.endswith("weight") for each in copies if each.label == "pack")
    assert not any(each.repeats for each in copies)


def test_what_is_copied_again_after_an_update_is_no_repetition() -> None:
    """Two items pack one weight; between the first and a third it is written."""
    weight = Buffer(64, float32, "weight", Storage((64,), float32))

    def pack() -> Work:
        return work([weight], [Buffer(64, float32, "panels")], "pack", code=KernelSource("pack", str))

    update = work([weight], [weight], "subtract", code=KernelSource("update", str))
    assert [each.repeats for each in layout_copies([pack(), pack(), update, pack()])] == [False, True, False]


def test_a_weight_that_two_losses_read_is_packed_once_for_each_value() -> None:
    """A judge is trained on two inputs, then judges once more with its new weights."""
    judge = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3), nn.Conv2d(16, 4, 3))
    optimizer = SGD(judge, 0.1)

    def step(x: engine.Tensor) -> engine.Tensor:
        optimizer.minimize(engine.mean(engine.square(judge(x))) + engine.mean(judge(x * 2)))
        return engine.gradients(engine.mean(judge(x)), [x])[0]

    traced = engine.trace(step)
    with engine.device(CpuDevice(threads=2, poison=False)):
        traced(np.random.default_rng(0).standard_normal((2, 3, 12, 12), dtype=np.float32)).numpy()
        packs = [each for each in engine.memory_report(traced).layout_copies if each.label == "pack"]
    assert {"1.weight", "2.weight"} <= {each.of for each in packs}
    assert not any(each.repeats for each in packs)
