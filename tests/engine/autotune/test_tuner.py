"""The tuner: bits never depend on it, decisions are kept, failing candidates are reported, states are left alone."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.autotune import faulty
from tests.engine.autotune.training import Training
from tests.tiers import tiered
from trainer import TrainerError, engine
from trainer.engine.autotune import tuner as tuner_module
from trainer.engine.autotune.process import Helper
from trainer.engine.autotune.record import MODES, Mode, StepTime, TuneRecord
from trainer.engine.autotune.tuner import RUNS_ALONE, Tuner
from trainer.engine.targets.cpu import defaults, native, templates
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.executable import Program
from trainer.engine.targets.cpu.recording import ProgramRun
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec
from trainer.engine.targets.cpu.thread_choice import ThreadChoice


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Decisions are kept here; compiled kernels, which cost time alone, where they always are. Helpers do not step back
    for other processes, since a busy machine would keep a test waiting.
    """
    path = tmp_path / "tuning" / "cpu.jsonl"
    monkeypatch.setattr(tuner_module, "Helper", lambda idle, **options: Helper(idle=False, **options))
    monkeypatch.setattr(tuner_module, "cache_path", lambda: path)
    return path


def assert_same_bits(training: Training) -> None:
    """Equal to as many steps on one thread without tuning."""
    expected = Training(CpuDevice(threads=1))
    for _ in training.losses:
        expected.step()
    assert training.losses == expected.losses
    for name, value in training.parameters().items():
        np.testing.assert_array_equal(value, expected.parameters()[name], err_msg=name)


def swapped(program: Any) -> Callable[[], int]:
    """Counts the kernels that are exchanged in a program from now on."""
    count = 0
    swap = program.swap

    def counting(*arguments: Any) -> None:
        nonlocal count
        count += 1
        swap(*arguments)

    program.swap = counting
    return lambda: count


def test_every_mode_is_one_of_the_four() -> None:
    with pytest.raises(TrainerError, match="unknown tuning mode"):
        engine.tuning("sometimes")  # type: ignore[arg-type]
    with pytest.raises(TrainerError, match="share"):
        engine.tuning("background", share=0.0)
    assert set(MODES) == {"background", "upfront", "cached", "off"}


def test_one_tuner_at_a_time() -> None:
    device = CpuDevice(threads=1)
    with engine.tuning("cached", device=device), pytest.raises(TrainerError, match="already"):
        engine.tuning("cached", device=device)
    engine.tuning("cached", device=device).close()


def test_a_device_without_templates_has_nothing_to_decide() -> None:
    with engine.tuning("upfront", device="reference") as tuner:
        assert tuner.done and tuner.records == []


@pytest.mark.parametrize("threads", tiered((1, 2), (2,)))
def test_upfront_decides_before_the_first_step_and_leaves_states_alone(threads: int) -> None:
    told: list[TuneRecord] = []
    progress: list[tuple[int, int, str]] = []
    device = CpuDevice(threads=threads)
    training = Training(device)
    tell = {"on_record": told.append, "on_progress": lambda *state: progress.append(state)}
    with Tuner(device, "upfront", negligible=0.0, **tell) as tuner:  # however long the first step is held up
        training.step()
        assert tuner.done and told == tuner.records
        for _ in range(5):
            training.step()
    assert_same_bits(training)
    tunable = {launch.tunable.spec for launch in training.program.launches if launch.tunable}
    assert len({record.key for record in told}) == len(told) == len(tunable) >= 6
    assert {record.source for record in told} == {"measured"}
    assert {record.operation for record in told} >= {"matmul", "convolution", "convolution_weight_gradient"}
    assert any(record.candidates > 1 and record.default_ms and record.best_ms for record in told)
    assert progress[-1][0] == progress[-1][1] and len(progress) == len(set(progress))


@pytest.mark.parametrize("mode", ["upfront", "background", "cached"])
def test_the_time_of_a_steps_kernels_is_told_of_decided_or_not(mode: Mode) -> None:
    device = CpuDevice(threads=2)
    told: list[StepTime] = []
    with Tuner(device, mode, share=1.0, negligible=0.0, on_step_time=told.append) as tuner:  # however long steps wait
        training = Training(device)
        while not (tuner.done and told) or tuner.counts(training.program):  # runs on one thread are not reported
            training.step()
        decided = {record.key for record in tuner.records}
    last = told[-1]
    assert {time.program for time in told} == {0} and last.updates
    assert set(last.kernels) == decided, "what is decided has its key"
    assert 0 < sum(last.kernels.values()) + sum(last.others.values()) <= 1.01 * last.ms
    labels = {launch.label for launch in training.program.launches}
    assert set(last.others) <= labels and len(told) <= 2
    assert_same_bits(training)
    if mode != "upfront":
        assert bool(told[0].others), "what is not decided yet is reported by its name"


@pytest.mark.full
def test_background_swaps_within_a_run_and_leaves_the_bits_alone() -> None:
    device = CpuDevice(threads=2)
    training = Training(device)
    with Tuner(device, "background", share=1.0, negligible=0.0) as tuner:  # however long the first step is held up
        training.step()
        assert not tuner.done
        swaps = swapped(training.program)
        while not tuner.done:
            training.step()
        assert swaps() > 0
        assert_same_bits(training)


def test_a_second_run_compiles_nothing_and_tunes_nothing() -> None:
    for mode in ("upfront", "background", "cached"):
        device = CpuDevice(threads=2)
        compiled, _ = native.object_counts()
        with engine.tuning(mode, device=device) as tuner:  # type: ignore[arg-type]
            training = Training(device)
            for _ in range(3):
                training.step()
            assert tuner.done
            sources = {record.source for record in tuner.records}
        if mode == "upfront":
            assert sources == {"measured"}
        else:
            assert sources == {"cache"} and native.object_counts()[0] == compiled


def test_a_cached_decision_that_is_no_candidate_is_not_used() -> None:
    device = CpuDevice(threads=1)
    with Tuner(device, "upfront"):
        Training(device).step()
    other = CpuDevice(threads=1)
    with Tuner(other, "cached", candidates=lambda spec: []) as tuner:
        training = Training(other)
        training.step()
    assert tuner.records == []
    assert_same_bits(training)


def test_thread_count_keys_a_decision() -> None:
    device = CpuDevice(threads=1)
    with Tuner(device, "upfront"):
        Training(device).step()
    with Tuner(CpuDevice(threads=2), "cached") as tuner:
        Training(tuner._device).step()
    assert tuner.records == []


def test_a_tuner_that_is_interrupted_leaves_the_states_as_they_were() -> None:
    class Stop(Exception):
        pass

    def stop(done: int, total: int, now: str) -> None:
        if done > 2:
            raise Stop

    device = CpuDevice(threads=1)
    training = Training(device)
    with engine.tuning("upfront", on_progress=stop, device=device), pytest.raises(Stop):
        training.step()
    before = Training(CpuDevice(threads=1)).parameters()
    for name, value in training.parameters().items():
        np.testing.assert_array_equal(value, before[name])


def test_what_was_decided_before_an_interruption_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(Exception):
        pass

    def stop(record: TuneRecord) -> None:
        if record.candidates > 1:
            raise Stop

    monkeypatch.setattr(tuner_module, "AT_ONCE", 1)
    device = CpuDevice(threads=1)
    training = Training(device)
    few = {"candidates": lambda spec: defaults.candidates(spec)[:2], "negligible": 0.0}
    with Tuner(device, "upfront", on_record=stop, **few) as tuner, pytest.raises(Stop):
        training.step()
    kept = {record.key for record in tuner.records}
    assert kept and tuner._open
    other = CpuDevice(threads=1)
    with Tuner(other, "cached") as reader:
        Training(other).step()
    assert {record.key for record in reader.records} == kept


@pytest.mark.full
def test_failing_candidates_are_skipped_and_told_of_and_the_training_never_notices(
    monkeypatch: pytest.MonkeyPatch, repository: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))  # plans of other tests have the true template
    monkeypatch.syspath_prepend(str(repository))
    monkeypatch.setattr(templates, "MATMUL", faulty.TEMPLATE)

    kinds = ["trap", "wrong result", "near write", "endless loop"]

    def candidates(spec: Any) -> list[Any]:
        sound: list[Any] = defaults.candidates(spec)[:1]
        return [*sound, *map(faulty.Faulty, kinds)] if isinstance(spec, MatmulSpec) else sound

    device = CpuDevice(threads=2)
    with Tuner(device, "upfront", candidates=candidates, memory=2 << 30, deadline=0.3, negligible=0.0) as tuner:
        training = Training(device)
        for _ in range(3):
            training.step()
    assert_same_bits(training)
    products = [record for record in tuner.records if record.operation == "matmul"]
    assert len(products) == 3
    for record in products:
        assert record.skipped == Counter(faulty.REASONS[kind] for kind in kinds) and record.best_ms == record.default_ms


@pytest.mark.full
def test_a_contest_goes_on_elsewhere_when_its_program_is_no_more() -> None:
    device = CpuDevice(threads=1)
    few = {"candidates": lambda spec: defaults.candidates(spec)[:3], "negligible": 0.0}
    with Tuner(device, "background", share=1.0, **few) as tuner:
        first = Training(device)
        first.step()
        while not tuner._contests:
            first.step()
        del first
        gc.collect()
        second = Training(device)
        while not tuner.done:
            second.step()
    assert_same_bits(second)


def test_steps_that_decide_nothing_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stamped: list[bool] = []
    walk = Program.walk

    def watched(self: Program, **options: bool) -> ProgramRun:
        stamped.append(options.get("stamped", False))
        return walk(self, **options)

    monkeypatch.setattr(Program, "walk", watched)
    monkeypatch.setattr(tuner_module, "idle_seconds", lambda: 0.0)
    device = CpuDevice(threads=1)
    with Tuner(device, "background", share=1e-9, negligible=0.0) as tuner:  # however long the first step is held up
        training = Training(device)
        for _ in range(4):
            training.step()
        assert stamped == [True, False, False, False]  # the first shows what each kernel costs
        assert not tuner.done and not tuner._queue.is_trying


class AlwaysSingleThreaded(ThreadChoice):
    """Beside a process that never leaves: every run that may go alone does."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.threads = 1

    def took(self, seconds: float) -> None:
        pass


def test_beside_a_process_that_stays_everything_is_decided_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.engine.targets.cpu.executable.ThreadChoice", AlwaysSingleThreaded)
    threads: list[int] = []
    after = Tuner.after

    def watched(self: Tuner, run: ProgramRun) -> None:
        threads.append(len(run.stamps))
        after(self, run)

    monkeypatch.setattr(Tuner, "after", watched)
    device = CpuDevice(threads=2)
    with Tuner(device, "background", share=1.0, candidates=lambda spec: defaults.candidates(spec)[:2]) as tuner:
        training = Training(device)
        training.step()
        while not tuner.done:
            training.step()
        training.step()
    stamped = [count for count in threads if count]
    assert stamped[: RUNS_ALONE + 1] == [1] * RUNS_ALONE + [2]
    assert stamped.count(2) <= -(-len(stamped) // (RUNS_ALONE + 1))
    assert threads[-1] == 0
    assert_same_bits(training)
