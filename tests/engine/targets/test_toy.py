"""An asynchronous device with a memory of its own, through the interface that every target has."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tests.engine.program import interpreter
from tests.engine.program.interpreter import _computed
from tests.engine.targets.toy import ToyDevice
from trainer import TrainerError, engine
from trainer.engine import State, Tensor
from trainer.engine.graph import lines
from trainer.engine.program.spec import Instruction


@pytest.fixture
def toy() -> Iterator[ToyDevice]:
    device = ToyDevice()
    with engine.device(device):
        yield device
    device.memory.close()


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def refuse(array: np.ndarray) -> np.ndarray:
    raise ValueError("nothing fits")


def test_reading_waits_for_the_run(toy: ToyDevice) -> None:
    counter = State(np.zeros(3), "counter", engine.float32)

    @engine.trace
    def step(x: Tensor) -> Tensor:
        counter.assign(counter + x)
        return counter * 2

    for number in range(1, 4):
        doubled = step(np.ones(3, np.float32))
        value = doubled.node.value
        assert value is not None and not value.is_ready and not counter.storage.is_ready
        assert number < 3 or doubled.tolist() == [6, 6, 6]
    assert counter.storage.is_ready and counter.tolist() == [3, 3, 3]


def test_steps_are_submitted_without_waiting_for_those_before(toy: ToyDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = State(np.zeros(3), "counter", engine.float32)

    @engine.trace
    def step(x: Tensor) -> Tensor:
        counter.assign(counter + x)
        return counter * 2

    step(np.ones(3, np.float32))
    with monkeypatch.context() as patched:
        patched.setattr(toy.memory, "wait_for", lambda point: pytest.fail("a step waits"))
        for _ in range(3):
            step(np.ones(3, np.float32))
            before = counter.snapshot()
            counter.set_value(np.zeros(3))
    assert before.tolist() == [1, 1, 1] and counter.tolist() == [0, 0, 0]


def test_a_run_is_a_handle(toy: ToyDevice) -> None:
    x = engine.asarray(np.arange(4, dtype=np.float32))
    run = toy.compile([(x + 1).node]).run([])
    assert not run.fence.is_ready
    run.fence.wait()
    assert run.fence.is_ready and run[0].is_ready
    np.testing.assert_array_equal(run[0].view(), [1, 2, 3, 4])


def test_inputs_are_taken_as_they_are_when_the_run_is_submitted(toy: ToyDevice) -> None:
    step = engine.trace(lambda x: x * 3)
    array = np.ones(2, np.float32)
    tripled = step(array)
    array[:] = 7
    assert tripled.tolist() == [3, 3] and step(array).tolist() == [21, 21]


def test_a_snapshot_keeps_the_value_of_its_moment(toy: ToyDevice) -> None:
    state = State(np.zeros(2), "state", engine.float32)

    @engine.trace
    def step() -> None:
        state.assign(state + 1)

    step()
    before = state.snapshot()
    step()
    state.set_value(np.full(2, 9))
    step()
    assert before.tolist() == [1, 1] and state.tolist() == [10, 10]


def test_data_move_to_the_device_that_computes(toy: ToyDevice) -> None:
    state = State(np.ones((2, 3)), "state", engine.float32)
    on_host = engine.asarray(np.ones((2, 3), np.float32))
    with engine.device("cpu"):
        double = engine.trace(lambda: state.assign(state * 2))
        double()
        assert on_host.device == state.device == "cpu"
    triple = engine.trace(lambda: state.assign(state * 3))
    triple()
    assert state.device == (on_host + state).device == "toy"
    with engine.device("cpu"):
        double()  # its program was bound to another address
        assert state.device == "cpu" and state.tolist() == [[12] * 3] * 2
    triple()
    assert state.tolist() == [[36] * 3] * 2


def test_to_device_moves_a_copy(toy: ToyDevice) -> None:
    x = engine.asarray(np.arange(3, dtype=np.float32))
    there = x.to_device("cpu").to_device(toy)
    assert there.device == "toy" and there.tolist() == [0, 1, 2]
    assert there.to_device(toy) is there and x.to_device("reference") is x
    back = there.to_device("cpu")
    with engine.device("cpu"):
        assert back.device == "cpu" and there.device == "toy" and back.tolist() == [0, 1, 2]


def test_an_error_is_raised_where_the_value_is_read_and_names_the_line_of_the_operation(toy: ToyDevice) -> None:
    made = line() + 4

    @engine.trace
    def step(x: Tensor) -> Tensor:
        bad = engine.host_call(refuse, x, results=[((2,), engine.float32)])
        return bad + 1

    found = step(np.ones(2, np.float32))
    with pytest.raises(TrainerError, match="nothing fits") as raised:
        found.numpy()
    assert raised.value.where is not None and raised.value.where.endswith(f"test_toy.py:{made}")


@pytest.mark.parametrize("is_traced", [False, True])
def test_an_error_of_any_operation_names_its_line(
    toy: ToyDevice, is_traced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "_computed", _without_sines)
    made = line() + 3

    def step(x: Tensor) -> Tensor:
        total = engine.sum(engine.sin(x), axis=0)  # one item of work, which the sum ends
        return total @ engine.ones((2, 2))

    found = (engine.trace(step) if is_traced else step)(engine.asarray([[1.0, 2.0]]))
    with pytest.raises(TrainerError, match="no sines here") as raised:
        found.numpy()
    assert raised.value.where is not None and raised.value.where.endswith(f"test_toy.py:{made}")


def _without_sines(body: Sequence[Instruction], operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    if any(step.operation == "sin" for step in body):
        raise MemoryError("no sines here")
    return _computed(body, operands)


def test_lines_are_noted_only_on_an_asynchronous_device(toy: ToyDevice) -> None:
    x = engine.asarray([1.0])
    assert lines.noting and (x + 1).node.line is not None
    with engine.device("cpu"):
        assert lines.noting  # other threads may still use the device outside
    assert (x + 1).node.line is not None


def test_gradients_are_those_of_the_reference_device(toy: ToyDevice) -> None:
    values = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)

    def gradient() -> list[float]:
        x = engine.asarray(values)
        loss = engine.sum(engine.tanh(x @ engine.matrix_transpose(x)) ** 2)
        return engine.gradients(loss, [x])[0].tolist()

    found = gradient()
    with engine.device("reference"):
        assert gradient() == found
