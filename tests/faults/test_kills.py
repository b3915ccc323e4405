"""Runs that are killed by SIGKILL in every phase and resumed end as one that never was."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "workloads")]

from killed import Kills, phase_of, reported  # noqa: E402

from trainer.rundir import CheckpointEvent, EventWriter, MetricEvent, PhaseEvent, RunPaths  # noqa: E402

RUNS = 12


@pytest.mark.full
def test_killed_and_resumed_a_run_has_the_bits_and_the_record_of_a_whole_one(tmp_path: Path) -> None:
    kills = Kills(tmp_path)
    runs = [kills.run() for _ in range(RUNS)]
    assert not [run.difference for run in runs if run.difference]
    phases = {phase for run in runs for phase in run.phases}
    assert len(phases) >= 6, phases


def test_the_phase_of_a_kill_is_told_by_what_was_begun_and_not_ended() -> None:
    training = [PhaseEvent("load", "started"), PhaseEvent("load", "finished"), PhaseEvent("train", "started")]
    assert phase_of([]) == "start-up" and phase_of(training[:1]) == "load" and phase_of(training) == "train"
    saving = [*training, PhaseEvent("checkpoint", "started"), PhaseEvent("checkpoint", "finished")]
    assert phase_of(saving) == "checkpoint" and phase_of([*saving, CheckpointEvent(4, "step-4")]) == "train"
    assert phase_of([*training, PhaseEvent("trace", "started"), PhaseEvent("compile", "started")]) == "compile"
    assert phase_of([*training, MetricEvent(9, 1.0, "test", {"loss": 1.0}, final=True)]) == "end"


def test_metrics_that_come_together_or_one_after_the_other_are_the_same_but_other_numbers_are_not(
    tmp_path: Path,
) -> None:
    def numbers(name: str, *values: dict[str, float]) -> object:
        paths = RunPaths(tmp_path / name)
        paths.root.mkdir()
        with EventWriter(paths.events, attempt=1, process_start=0.0) as writer:
            for each in values:
                writer.write(MetricEvent(9, 1.0, "valid", each))
        return reported(paths)

    together = numbers("together", {"loss": 1.0, "AP": float("nan")})
    assert together == numbers("apart", {"AP": float("nan")}, {"loss": 1.0})
    assert together != numbers("twice", {"AP": float("nan")}, {"loss": 1.0}, {"loss": 1.0})
    assert together != numbers("other", {"loss": 1.0000001, "AP": float("nan")})
    assert together != numbers("fewer", {"loss": 1.0})
