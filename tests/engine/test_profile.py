"""Profiles: a program of known work, tables within their width, traces that nest, and no bit changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.program.graphs import leaf
from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.engine.graph import primitives as p
from trainer.engine.profiling import Profile, Row
from trainer.engine.profiling.measure import Call, put_together
from trainer.engine.profiling.timeline import Span
from trainer.engine.targets.cpu import peaks as peaks_module
from trainer.engine.targets.cpu.barriers import barriers
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.peaks import Peaks
from trainer.engine.targets.cpu.recording import Clock, ProgramRun

ROWS, DEPTH, COLUMNS = 96, 200, 64
PEAKS = Peaks(float32=4e11, float64=2e11, bfloat16=8e11, bandwidth=5e10)


@pytest.fixture(scope="module", autouse=True)
def device() -> Iterator[CpuDevice]:
    with engine.device(CpuDevice(threads=2)) as chosen:
        yield chosen  # type: ignore[misc]


@pytest.fixture(autouse=True)
def known_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.engine.profiling.measure.peaks", lambda pool: PEAKS)


class Network(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.last = nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = engine.maximum(self.norm(self.first(x)), 0)
        return self.last(engine.mean(self.second(x), axis=(2, 3)))


def training_step(network: Network) -> Any:
    def step(image: Any, label: Any) -> Any:
        loss = nn.cross_entropy(network(image), label)
        parameters = list(network.parameters())
        for parameter, gradient in zip(parameters, engine.gradients(loss, parameters), strict=True):
            parameter.assign(parameter - 0.1 * gradient)
        return loss

    return step


def batch() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.standard_normal((4, 3, 20, 20)).astype(np.float32), np.arange(4, dtype=np.int64)


@pytest.fixture(scope="module")
def profiled() -> Profile:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainer.engine.profiling.measure.peaks", lambda pool: PEAKS)
        return engine.profile(engine.trace(training_step(Network().set_seed(1, "net"))), *batch(), steps=3)


def test_a_matrix_product_has_its_operations_bytes_and_roofline() -> None:
    a, b = np.ones((ROWS, DEPTH), np.float32), np.ones((DEPTH, COLUMNS), np.float32)
    found = engine.profile(engine.trace(lambda a, b: a @ b), a, b, steps=3)
    (row,) = (row for row in found.rows if row.kernel == "matmul")
    assert row.shape == f"{ROWS}x{DEPTH}x{COLUMNS}"
    assert row.operations == 2 * ROWS * DEPTH * COLUMNS
    assert row.nbytes == 4 * (ROWS * DEPTH + DEPTH * COLUMNS + ROWS * COLUMNS)
    assert row.roofline == pytest.approx(max(row.operations / PEAKS.float32, row.nbytes / PEAKS.bandwidth))
    assert row.busy > 0 and row.gflops == pytest.approx(row.operations / row.seconds / 1e9)


def test_a_loop_counts_what_it_reads_once_and_each_operation() -> None:
    x, row = np.ones((300, 70), np.float32), np.ones(70, np.float32)
    found = engine.profile(engine.trace(lambda x, row: (x + row) * x), x, row, steps=1)
    (only,) = found.rows
    assert (only.nbytes, only.operations) == (4 * (2 * 300 * 70 + 70), 2 * 300 * 70)


def test_convolutions_in_all_three_directions_count_the_same_products(profiled: Profile) -> None:
    products = 2 * 4 * 32 * 16 * (3 * 20 - 2) ** 2  # a window of 3 misses one pixel at each border
    for kernel in ("convolution", "convolution_input_gradient", "convolution_weight_gradient"):
        (row,) = (row for row in profiled.rows if row.kernel == kernel and "x16x20x20" in row.shape)
        assert row.operations is not None and 1.0 <= row.operations / products < 1.05  # the epilogue is the rest


@pytest.mark.parametrize("numerics", ["exact", "fast"])
def test_algorithms_are_measured_by_what_they_stand_for(numerics: Any) -> None:
    x, w = np.ones((2, 64, 24, 24), np.float32), np.ones((64, 64, 3, 3), np.float32)
    step = engine.trace(lambda x, w: engine.convolution(x, w, padding=1))
    with engine.device(CpuDevice(threads=1, numerics=numerics)):
        found = engine.profile(step, x, w, steps=1)
    (row,) = (row for row in found.rows if row.kernel == "convolution")
    assert row.operations == 2 * 2 * 64 * 64 * (3 * 24 - 2) ** 2
    assert any("transform" in row.kernel for row in found.rows) == (numerics == "fast")


def test_pairs_of_bfloat16_are_held_against_their_own_peak() -> None:
    a, b = np.ones((256, 256), np.float32), np.ones((256, 256), np.float32)
    step = engine.trace(lambda a, b: a.astype(engine.bfloat16) @ b.astype(engine.bfloat16))
    (row,) = (row for row in engine.profile(step, a, b, steps=1).rows if row.kernel == "matmul")
    assert row.roofline == pytest.approx(2 * 256**3 / PEAKS.bfloat16, rel=0.01)


def test_launches_are_told_by_module(profiled: Profile) -> None:
    by_kernel = {(row.kernel, row.shape.split()[0]): row.module for row in profiled.rows}
    assert by_kernel["convolution", "4x3x20x20"] == "net.first"
    for kernel in ("convolution", "convolution_input_gradient", "convolution_weight_gradient"):
        assert by_kernel[kernel, "4x16x20x20"] == "net.second"
    assert {row.module for row in profiled.grouped("module")} >= {"net.first", "net.second", "net.last"}


def test_a_step_is_the_sum_of_its_parts(device: CpuDevice) -> None:
    # Two launches with a barrier between them, on a clock of microseconds: each thread is at work, waits, or wakes up.
    x = leaf((300, 300))
    program = device.compile([p.matmul(p.matmul(x, x), x)], inputs=[x])
    launches = len(program.launches)
    waits = barriers(program.launches, program.memory.offsets)
    random = np.random.default_rng(0)
    calls, runs = [], []
    for number in range(3):
        stamps = np.zeros((2, launches + 1, 3), np.int64)
        at = random.integers(5, 20, 2)  # when the threads are awake
        for index in range(launches):
            stamps[:, index, 0] = at
            stamps[:, index, 1] = at.max() if waits[index] else at
            at = stamps[:, index, 2] = stamps[:, index, 1] + random.integers(100, 900, 2)
        stamps[:, -1, 0], stamps[0, -1, 1] = at, at.max()
        begun = 10.0 * number
        runs.append(ProgramRun(program, stamps + 10_000_000 * number, begun, 1e-6 * at.max()))
        calls.append(Call(begun - 2e-5, begun + 1e-6 * at.max() + 1e-5, number, number + 1))
    found = put_together(runs, Clock(0.0, 0, 1e-6), calls, PEAKS, threads=2)
    assert found.python == pytest.approx(3e-5, rel=1e-6)
    assert found.seconds == pytest.approx(found.programs + found.python)
    for timeline in found.timelines:
        (span,) = timeline.spans
        spent = span.busy.mean(axis=0).sum() + span.waiting().sum() + span.waking
        assert spent == pytest.approx(span.finished - span.begun, rel=1e-6)
    for index, row in enumerate(found.rows):
        assert row.busy == pytest.approx(
            np.median([run.stamps[:, index, 2].mean() - run.stamps[:, index, 1].mean() for run in runs]) * 1e-6,
            rel=1e-6,
        )


def test_a_wait_belongs_to_the_launch_that_was_split_unevenly() -> None:
    # Two launches between barriers: thread 0 works 5 on the first, thread 1 works 2; both work 1 on the second.
    arrived = np.array([[0.0, 5.0], [0.0, 2.0]])
    span = Span(
        ("first", "second"), (False, False), 0.0, 6.0,
        arrived, arrived, np.array([[5.0, 6.0], [2.0, 3.0]]), np.array([6.0, 3.0]),
    )  # fmt: skip
    np.testing.assert_allclose(span.waiting(), [1.5, 0.0])
    assert span.waking == 0.0


@pytest.mark.parametrize("by", ["kernel", "launch", "module"])
@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_table_stays_within_its_width_and_is_sorted(profiled: Profile, by: Any, width: int) -> None:
    lines = profiled.table(by, width=width, rows=7).split("\n")
    assert max(map(len, lines)) <= width
    assert lines[0].startswith(by) and "ms share%" in lines[0]
    seconds = [row.seconds for row in profiled.grouped(by)]
    assert seconds == sorted(seconds, reverse=True)
    assert sum(seconds) == pytest.approx(sum(row.seconds for row in profiled.rows))


def test_an_unknown_grouping_is_refused(profiled: Profile) -> None:
    with pytest.raises(TrainerError, match="kernel, launch, module"):
        profiled.table("shape")  # type: ignore[arg-type]


def test_a_trace_is_read_back_with_a_row_for_each_thread(profiled: Profile, tmp_path: Path) -> None:
    profiled.chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert set(names.values()) == {"calls", "thread 0", "thread 1"}
    for tid in names:
        spans = sorted(
            (event for event in events if event["ph"] == "X" and event["tid"] == tid),
            key=lambda event: (event["ts"], -event["dur"]),
        )
        open_until: list[float] = []
        for span in spans:
            while open_until and open_until[-1] <= span["ts"] + 0.01:
                open_until.pop()
            assert not open_until or span["ts"] + span["dur"] <= open_until[-1] + 0.01  # inside what is open
            open_until.append(span["ts"] + span["dur"])
    launches = [event for event in events if event.get("cat") == "launch"]
    threads = [len(span.busy) for timeline in profiled.timelines for span in timeline.spans]
    assert len(launches) == len(profiled.rows) * sum(threads)
    assert [event["name"] for event in events if event.get("cat") == "call"] == ["call 0", "call 1", "call 2"]


def test_json_has_every_figure_of_every_launch(profiled: Profile) -> None:
    data = json.loads(json.dumps(profiled.to_json()))
    assert data["version"] == 1 and data["steps"] == 3 and data["threads"] == 2
    assert len(data["launches"]) == len(profiled.rows)
    assert [Row(**launch) for launch in data["launches"]] == list(profiled.rows)
    assert Peaks(**data["peaks"]) == PEAKS


def test_profiling_changes_no_bit() -> None:
    values = []
    for profiles in (False, True):
        network = Network().set_seed(3, "net")
        step = engine.trace(training_step(network))
        if profiles:
            engine.profile(step, *batch(), steps=2, warm_up=1)
        else:
            for _ in range(3):
                step(*batch())
        values.append({name: state.numpy() for name, state in network.named_states().items()})
    for name, value in values[0].items():
        np.testing.assert_array_equal(value, values[1][name], err_msg=name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"steps": 0}, "wrong number of steps"), ({"warm_up": -1}, "wrong number of steps")],
)
def test_wrong_counts_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(TrainerError, match=message):
        engine.profile(engine.trace(lambda x: x + 1), np.ones(3, np.float32), **arguments)


def test_what_can_not_be_profiled_says_so() -> None:
    with pytest.raises(TrainerError, match="no compiled program"):
        engine.profile(lambda: 3)
    with pytest.raises(TrainerError, match="compiled programs") as raised, engine.device("reference"):
        engine.profile(lambda: 3)
    assert "test_profile.py" in str(raised.value)


def test_peaks_are_measured_once_and_kept(device: CpuDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(peaks_module, "STREAM_BYTES", 1 << 20)
    monkeypatch.setattr(peaks_module, "ITERATIONS", 1000)
    found = peaks_module.peaks(device.pool)
    assert min(found.float32, found.float64, found.bfloat16, found.bandwidth) > 0
    monkeypatch.setattr(peaks_module, "measure", lambda pool: pytest.fail("measured again"))
    assert peaks_module.peaks(device.pool) == found


def test_a_damaged_file_of_peaks_is_measured_anew(
    device: CpuDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(peaks_module, "measure", lambda pool: PEAKS)
    for _ in range(2):
        assert peaks_module.peaks(device.pool) == PEAKS
        (kept,) = (tmp_path / "objects").glob(f"*{peaks_module.PEAKS}")
        written = kept.read_bytes()
        kept.write_bytes(written[:-1])
    assert peaks_module.peaks(device.pool) == PEAKS and kept.read_bytes() == written


def test_reading_between_pixels_counts_a_multiply_add_for_each_tap(device: CpuDevice) -> None:
    with engine.device(device):
        traced = engine.trace(nn.functional.grid_sample)
        inputs = np.zeros((1, 16, 4, 4), np.float32), np.zeros((1, 2, 3, 2), np.float32)
        traced(*inputs)
        rows = engine.profile(traced, *inputs, steps=1).rows
    (row,) = [row for row in rows if row.kernel.startswith("gather_sum")]
    assert row.operations == 2 * 6 * 4 * 16
