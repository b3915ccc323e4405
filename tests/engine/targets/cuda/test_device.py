"""The device `cuda` on the recording driver: the same bits as the CPU, one graph a step, nothing waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.cuda.recorder import Recorder
from trainer import TrainerError, engine
from trainer.engine import State, Tensor, targets
from trainer.engine.program.layout_copies import REASONS
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cuda.device import CudaDevice
from trainer.engine.targets.cuda.program import Step


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def cuda(recorder: Recorder) -> Iterator[CudaDevice]:
    device = CudaDevice(0, recorder)
    with engine.device(device):
        yield device


class Line:
    """A model of one layer, and its training step."""

    def __init__(self) -> None:
        self.weight = State(np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2), "weight")
        self.count = State(np.zeros((), np.int64), "count")
        self.step = engine.trace(self._step)

    def _step(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        y = engine.tanh(x @ self.weight) * scale
        loss = engine.sum(y * y)
        (gradient,) = engine.gradients(loss, [self.weight])
        self.weight.assign(self.weight - 0.1 * gradient)
        self.count.assign(self.count + 1)
        return loss, y

    @property
    def program(self) -> Step:
        (program,) = self.step.programs
        return program


def batch(number: int) -> np.ndarray:
    return np.random.default_rng(number).normal(size=(4, 3)).astype(np.float32)


def bits(*tensors: Tensor) -> list[bytes]:
    return [each.numpy().tobytes() for each in tensors]


def test_values_and_steps_have_the_bits_of_the_cpu(cuda: CudaDevice) -> None:
    def compute() -> list[bytes]:
        x = engine.asarray(batch(0))
        found = bits(x * 1.5 + 2, engine.sum(x[1:], axis=0), x.T @ x)
        model = Line()
        for number in range(3):
            found += bits(*model.step(batch(number), np.float32(0.5 + number)), model.weight, model.count)
        model.weight.set_value(np.ones((3, 2)))
        return [*found, *bits(*model.step(engine.asarray(batch(9)), engine.asarray(np.float32(2))), model.weight)]

    ours = compute()
    with engine.device(CpuDevice(threads=1)):
        assert ours == compute()


def test_slices_may_begin_at_any_element(cuda: CudaDevice) -> None:
    """Where a slice begins is an argument of a program outside of traced steps: its loads are not of 16 bytes."""
    line, square = np.arange(40, dtype=np.float32), np.arange(17 * 20, dtype=np.float32).reshape(17, 20)
    x, y = engine.asarray(line), engine.asarray(square)
    for first in range(1, 5):
        np.testing.assert_array_equal((x[first : first + 32] * 2).numpy(), line[first : first + 32] * 2)
    np.testing.assert_array_equal((y[1:, 1:17] @ y[:16, :16]).numpy(), square[1:, 1:17] @ square[:16, :16])


def test_a_step_is_captured_once_and_launched_once_each_time(cuda: CudaDevice, recorder: Recorder) -> None:
    model = Line()
    for number in range(5):
        model.step(batch(number), np.float32(1))
    assert model.program.captures == 1 and recorder.launches == 5
    assert [name for name, _ in recorder.calls].count("launch a kernel") == len(model.program.launches)


def test_a_step_is_captured_again_when_its_addresses_change(cuda: CudaDevice, recorder: Recorder) -> None:
    model, other = Line(), engine.trace(lambda x: engine.sum(engine.tanh(x @ x), axis=0) @ x)
    first = bits(*model.step(batch(0), np.float32(1)))
    other(np.ones((64, 64), np.float32))  # it needs a larger arena
    model.step(batch(1), np.float32(1))
    assert model.program.captures == 2
    model.weight.storage.address  # noqa: B018 - moves the state to the host
    model.step(batch(1), np.float32(1))
    assert model.program.captures == 3
    assert bits(*Line().step(batch(0), np.float32(1))) == first


def test_reading_a_step_does_not_wait_for_the_next_one(cuda: CudaDevice, recorder: Recorder) -> None:
    model = Line()
    before = model.step(batch(0), np.float32(1))
    for number in range(1, 4):
        snapshot = model.weight.snapshot()
        now = model.step(batch(number), np.float32(1))
        recorder.waits.clear()
        assert np.isfinite(before[0].numpy()) and np.isfinite(snapshot.numpy()).all()
        assert not cuda.memory.compute.done, "the step under way was executed, too"
        assert recorder.waits, "nothing had to be waited for, so nothing is shown"
        before = now


def test_a_batch_is_copied_while_the_step_before_runs(cuda: CudaDevice, recorder: Recorder) -> None:
    model = Line()
    for number in range(3):
        model.step(batch(number), np.float32(1))
    sent = model.program._slots[2 % 2]
    assert sent is not None
    recorder.executed = 0
    sent[1].wait()
    assert recorder.executed == len(model.program.launches), "of two steps given before, one is over: not the last"


def test_the_host_may_change_a_batch_once_the_step_is_given(cuda: CudaDevice) -> None:
    model, other, values = Line(), Line(), batch(0)
    loss, _ = model.step(values, np.float32(1))
    values[:] = 7
    assert bits(loss) == bits(other.step(batch(0), np.float32(1))[0])


def test_a_value_that_is_read_before_the_others_are_fetched_does_not_take_their_place(cuda: CudaDevice) -> None:
    blocks = [cuda.memory.allocate(600, engine.float32) for _ in range(2)]
    for number, block in enumerate(blocks):
        cuda.memory.upload(block, np.full(600, number, np.float32))
        cuda.memory.fetch(block)
        assert set(cuda.memory.download(block)) == {number}


def test_results_keep_their_memory_until_they_are_let_go(cuda: CudaDevice, recorder: Recorder) -> None:
    model = Line()
    kept = [model.step(batch(number), np.float32(1))[1] for number in range(4)]
    found = bits(*kept)
    assert len(set(found)) == 4
    del kept
    used = []
    for number in range(8):
        model.step(batch(number), np.float32(1))[0].numpy()
        used.append(recorder.used)
    assert used[-1] == used[1]


def test_fast_numerics_multiply_on_tensor_cores() -> None:
    left, right = np.eye(16, dtype=np.float32) + 2**-12, np.ones((16, 8), np.float32)
    found = {}
    for numerics in ("exact", "fast"):
        with engine.device(CudaDevice(0, Recorder(), numerics=numerics)):
            found[numerics] = float((engine.asarray(left) @ engine.asarray(right)).numpy()[0, 0])
    assert found == {"exact": 1 + 16 * 2**-12, "fast": 1 + 15 * 2**-12}, "TF32 rounds 1 + 2^-12 to 1"


def test_what_has_no_kernel_is_refused_with_the_alternative(cuda: CudaDevice) -> None:
    def call(x: Tensor) -> Tensor:
        return engine.linalg.inv(x)

    with pytest.raises(TrainerError, match=r"(?s)test_device.py:\d+: numpy.linalg.inv is a function on the host"):
        engine.trace(call)(np.eye(3, dtype=np.float32))


def test_a_function_on_the_host_runs_outside_of_steps_and_has_gradients(cuda: CudaDevice) -> None:
    x = engine.asarray(np.diag([1.0, 2.0, 4.0]).astype(np.float32))
    total = engine.sum(engine.linalg.inv(x * 1) * 2)
    (gradient,) = engine.gradients(total, [x])
    assert total.item() == 3.5
    np.testing.assert_allclose(np.diag(gradient.numpy()), [-2, -0.5, -0.125], rtol=1e-6)


def test_devices_have_the_number_of_their_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(gpus=2)
    assert (CudaDevice(0, recorder).name, CudaDevice(1, recorder).name) == ("cuda", "cuda:1")
    monkeypatch.setitem(targets._devices, "cuda:1", (one := CudaDevice(1, recorder)))
    monkeypatch.setitem(targets._devices, "cuda", (zero := CudaDevice(0, recorder)))
    assert [targets.get(name) for name in ("cuda:0", "cuda:1", "cuda:01")] == [zero, one, one]
    for name in ("cuda:", "cuda:x", "cpu:1", "gpu"):
        with pytest.raises(TrainerError, match="cuda:N"), engine.device(name):
            pass


def test_memory_is_reported_with_the_copies_for_a_layout(cuda: CudaDevice) -> None:
    flat = engine.trace(lambda x: engine.reshape(engine.permute_dims(x, (1, 0)), (12,)))
    flat(engine.asarray(batch(0)))
    assert [copy.reason for copy in engine.memory_report(flat).layout_copies] == [REASONS["reshape"]]


def test_all_names_are_cupys() -> None:
    """The recorder's names exist in CuPy, which imports without a GPU."""
    cupy = pytest.importorskip("cupy")
    cuda: Any = cupy.cuda
    recorder: Any = Recorder()
    for name in ("Device", "Event", "Stream", "MemoryPool", "alloc_pinned_memory"):
        assert callable(getattr(cuda, name)) and callable(getattr(recorder, name))
    for place in ("runtime", "driver", "memory", "function"):
        missing = [name for name in vars(getattr(recorder, place)) if not hasattr(getattr(cuda, place), name)]
        assert not missing
    constants = {name: value for name, value in vars(recorder.runtime).items() if isinstance(value, int)}
    assert {name: getattr(cuda.runtime, name) for name in constants} == constants
    assert {"load", "get_function"} <= set(dir(cuda.function.Module))
    assert "ptr" in dir(cuda.function.Function)
    assert {"launch", "upload"} <= set(dir(cuda.Graph))
    assert {"begin_capture", "end_capture", "wait_event", "done", "synchronize"} <= set(dir(cuda.Stream))
    assert {"record", "synchronize", "done"} <= set(dir(cuda.Event))
