"""What is made of states alone is computed once while these are unchanged, and again when they are written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trainer import engine
from trainer.engine import State, nn
from trainer.engine.nn.functional import relu
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner import SGD

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 9, 9), dtype=np.float32)


class Network(nn.Module):
    def __init__(self) -> None:
        self.first, self.norm = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16)
        self.last, self.head = nn.Conv2d(16, 40, 3, stride=2), nn.Linear(360, 1030)

    def __call__(self, x: engine.Tensor) -> engine.Tensor:
        return self.head(engine.reshape(self.last(relu(self.norm(self.first(x)))), (2, -1)))


def trained(network: Network) -> None:
    optimizer = SGD(network, 0.1)

    def step(x: engine.Tensor) -> engine.Tensor:
        loss = engine.mean(network(x) ** 2)
        optimizer.minimize(loss)
        return loss

    engine.trace(step)(IMAGES)


def half(state: State) -> None:
    state.assign(state * 0.5)


CHANGES: dict[str, Callable[[Network], None]] = {
    "an array": lambda network: network.first.weight.set_value(np.ones((16, 3, 3, 3), np.float32)),
    "an assigned tensor": lambda network: half(network.last.weight),
    "assigned twice": lambda network: [half(network.last.weight), half(network.last.weight)],
    "a step of training": trained,
    "a state dictionary": lambda network: network.load_state_dict(Network().set_seed(5).state_dict()),
    "statistics": lambda network: network.norm.running_mean.set_value(np.arange(16, dtype=np.float32)),
}


def fresh(network: Network) -> np.ndarray:
    """What a program gives that is compiled now."""
    return engine.trace(lambda x: network(x))(IMAGES).numpy()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_computed_once_follows_its_states(on_cpu: CpuDevice, change: Callable[[Network], None]) -> None:
    network = Network().set_seed(1).eval()
    step = engine.trace(lambda x: network(x))
    before = [step(IMAGES).numpy() for _ in range(2)]
    change(network)
    after = [step(IMAGES).numpy() for _ in range(2)]
    np.testing.assert_array_equal(before[0], before[1])
    np.testing.assert_array_equal(after[0], after[1])
    assert not np.array_equal(before[0], after[0])
    np.testing.assert_array_equal(after[0], fresh(network))


def test_a_second_run_leaves_out_what_is_constant() -> None:
    device = CpuDevice(threads=2, poison=False)
    network = Network().set_seed(1).eval()
    with engine.device(device):
        step = engine.trace(lambda x: network(x))
        with device.recorded() as recording:
            for _ in range(3):
                step(IMAGES)
            half(network.head.weight)
            step(IMAGES)
    labels = [launch.label for launch in recording.runs[0].program.launches]
    assert any(label.startswith("pack") for label in labels)
    ran = [(run.stamps[:, :-1, 2] > run.stamps[:, :-1, 0]).any(axis=0) for run in recording.runs]
    assert ran[0].all() and ran[3].all()
    packs = np.array([label.startswith("pack") for label in labels])
    assert not ran[1][packs].any() and not ran[2][packs].any() and ran[1][~packs].any()


def test_what_a_training_step_updates_is_not_constant(on_cpu: CpuDevice) -> None:
    network = Network().set_seed(1)
    optimizer = SGD(network, 0.1)

    def step(x: engine.Tensor) -> engine.Tensor:
        loss = engine.mean(network(x) ** 2)
        optimizer.minimize(loss)
        return loss

    traced = engine.trace(step)
    losses = [traced(IMAGES).item() for _ in range(4)]
    assert len(set(losses)) == 4
    assert not any(buffer.kept for launch in traced.programs[0].launches for buffer in launch.writes)


def test_padding_of_an_input_is_done_in_each_run(on_cpu: CpuDevice) -> None:
    scale = State(np.array(2.0, np.float32))
    step = engine.trace(lambda x: engine.concat([scale * engine.ones((3,)), x]) @ engine.ones((5, 1)))
    for value in (1.0, 2.0):
        np.testing.assert_array_equal(step(np.full(2, value, np.float32)).numpy(), [6 + 2 * value])
