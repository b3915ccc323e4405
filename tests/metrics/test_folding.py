"""The process that folds: what goes in comes out, nothing is lost, errors arrive with their place."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from trainer import TrainerError
from trainer.metrics import Metric, Rows, State
from trainer.metrics.folding import FoldingProcess, Form, MetricFailure, NotANumber, Slot

REPOSITORY = Path(__file__).resolve().parents[2]


class Total(Rows):
    """The sum and the number of the rows that count."""

    def values(self, state: State) -> dict[str, float]:
        return {"": float(state["x"].sum()), "rows": len(state["x"])}


class Fails(Rows):
    """Raises an error that only this file knows."""

    def fold(self, state: State, part: object) -> State:
        raise ZeroDivisionError("no metric today")


@pytest.fixture
def folder() -> Iterator[FoldingProcess]:
    made = FoldingProcess(ring_bytes=1 << 16)
    yield made
    made.close()


def opened(folder: FoldingProcess, metric: Metric) -> None:
    folder.open("valid", {"total": Slot({"total": metric})})


def put(folder: FoldingProcess, *values: float, weight: object = None, at: object = None) -> None:
    """Hand over values and what they count, as the learner does: one run of bytes."""
    x = np.array(values, np.float32)
    counts = np.ones(len(x), np.float32) if weight is None else np.asarray(weight, np.float32)
    form = Form.of({("total", "x"): ("float32", x.shape), ("total", "weight"): ("float32", x.shape)})

    def write(target: memoryview) -> None:
        target[:] = np.concatenate([x, counts]).tobytes()

    folder.put("valid", form, {"float32": write}, at)


def test_values_are_those_of_all_that_was_put_before(folder: FoldingProcess) -> None:
    opened(folder, Total())
    put(folder, 1, 2, 3, weight=[1, 0, 1])
    first = folder.values("valid")
    put(folder, 10)
    second = folder.values("valid")
    folder.reset("valid")
    put(folder, 5)
    assert folder.values("valid").result()[0] == {"total": 5, "total/rows": 1}
    assert second.result()[0] == {"total": 14, "total/rows": 3}
    assert first.is_there and first.result()[0] == {"total": 4, "total/rows": 2}


def test_a_full_ring_keeps_the_loop_waiting_and_loses_nothing(folder: FoldingProcess) -> None:
    opened(folder, Total())
    for step in range(200):  # 200 records of 15 KB through 64 KB
        put(folder, *[step] * 1920)
    assert folder.values("valid").result()[0] == {"total": 1920 * 199 * 100, "total/rows": 200 * 1920}
    assert folder.lag == 0


def test_a_record_larger_than_the_ring_arrives(folder: FoldingProcess) -> None:
    opened(folder, Total())
    waiting = folder.values("valid")
    put(folder, *range(100_000))
    assert folder.values("valid").result()[0]["total/rows"] == 100_000
    assert waiting.result()[0] == {}


def test_states_come_back_and_are_taken_up(folder: FoldingProcess) -> None:
    opened(folder, Total())
    put(folder, 1, 2)
    states = folder.states("valid").result()
    np.testing.assert_array_equal(states["total"]["x"], [1, 2])
    folder.reset("valid")
    folder.restore("valid", states)
    put(folder, 4)
    assert folder.values("valid").result()[0] == {"total": 7, "total/rows": 3}


def test_an_error_of_a_metric_arrives_with_its_traceback(folder: FoldingProcess) -> None:
    opened(folder, Fails())
    put(folder, 1)
    with pytest.raises(ZeroDivisionError, match="no metric today") as raised:
        folder.values("valid").result()
    assert isinstance(raised.value.__cause__, MetricFailure)
    assert "test_folding.py" in str(raised.value.__cause__) and "in fold" in str(raised.value.__cause__)
    with pytest.raises(ZeroDivisionError):
        for _ in range(1000):
            put(folder, 1)


def test_a_nan_is_refused_with_its_batch_and_row(folder: FoldingProcess) -> None:
    opened(folder, Total())
    put(folder, 1, np.nan, weight=[1, 0], at=("valid", 0, 0))
    put(folder, 1, 2, np.nan, at=("valid", 0, 1))
    with pytest.raises(NotANumber) as refused:
        folder.values("valid").result()
    assert (refused.value.part, refused.value.row, refused.value.at) == ("x", 2, ("valid", 0, 1))


def test_a_killed_process_is_told_of(folder: FoldingProcess) -> None:
    opened(folder, Total())
    assert folder.values("valid").result()[0] == {}
    assert folder._process is not None
    os.kill(folder._process.pid, signal.SIGKILL)
    with pytest.raises(TrainerError, match=r"died\n.*killed by signal 9"):
        folder.values("valid").result()


def test_the_process_ends_with_ours_and_ctrl_c_is_not_for_it(folder: FoldingProcess) -> None:
    opened(folder, Total())
    folder.values("valid").result()
    process, connection = folder._process, folder._connection
    assert process is not None and connection is not None
    process.send_signal(signal.SIGINT)
    put(folder, 3)
    assert folder.values("valid").result()[0] == {"total": 3, "total/rows": 1}
    connection.close()
    assert process.wait(timeout=30) == 0


@pytest.mark.full
def test_a_metric_that_hangs_does_not_outlive_a_killed_training(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = f"""
import os
from tests.learner.waits import Waits
from trainer.metrics.folding import FoldingProcess, Form, Slot
folder = FoldingProcess()
folder.open("valid", {{"slow": Slot({{"slow": Waits({str(pipe)!r})}})}})
form = Form.of({{("slow", "labels"): ("float32", (1,)), ("slow", "weight"): ("float32", (1,))}})
folder.put("valid", form, {{"float32": lambda target: None}})
folder.values("valid")
print(folder._process.pid, flush=True)
os.read(0, 1)
"""
    command = [sys.executable, "-c", script]
    training = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    assert training.stdout is not None
    process = psutil.Process(int(training.stdout.readline()))
    with open(pipe, "wb"):  # opens when the metric has opened its end, and keeps it waiting
        training.kill()
        training.communicate()
        with contextlib.suppress(psutil.NoSuchProcess):
            process.wait(timeout=30)
