"""A run in a few numbers, read from both ends of its events."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tui.synthetic_run import START, append, make_folder, write_long_run, write_run
from trainer.rundir import EndEvent, MetricEvent, ResumedEvent, RunEvent, first_records, summarize

HEAD = RunEvent("run", "digits", "0.1.0", 1, "host", "cpu", 2)


def test_a_finished_run(tmp_path: Path) -> None:
    summary = summarize(write_run(tmp_path / "run"))
    assert (summary.name, summary.task, summary.device, summary.status) == ("run", "digits", "cpu", "done")
    assert (summary.attempt, summary.step, summary.started) == (1, 960, START + 0.05)
    assert summary.metrics["test/accuracy"] == 0.9913 and "valid/loss" in summary.metrics


def test_a_long_run_is_read_at_its_ends_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_long_run(tmp_path / "long", 20_000)
    size = paths.events.stat().st_size
    monkeypatch.setattr("trainer.rundir.summary.NEAR_THE_END", 4096)
    monkeypatch.setattr("trainer.rundir.summary.FAR_FROM_IT", size // 2)
    summary = summarize(paths)
    assert (summary.task, summary.status, summary.step) == ("digits", "done", 20_000)
    assert summary.metrics["valid/accuracy"] == pytest.approx(0.9)


def test_what_a_resumed_attempt_took_back_is_not_told(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    append(paths, HEAD, 0.0)
    append(paths, MetricEvent(10, 1.0, "train", {"loss": 2.0}), 1.0)
    append(paths, MetricEvent(20, 2.0, "valid", {"accuracy": 0.5}), 2.0)
    append(paths, ResumedEvent(10), 3.0, attempt=2)
    append(paths, EndEvent("stopped", 0, 10), 4.0, attempt=2)
    summary = summarize(paths)
    assert (summary.status, summary.attempt, dict(summary.metrics)) == ("stopped", 2, {"train/loss": 2.0})


def test_a_run_without_any_event(tmp_path: Path) -> None:
    summary = summarize(make_folder(tmp_path / "run"))
    assert (summary.started, summary.seconds, summary.step, dict(summary.metrics)) == (None, None, None, {})
    assert summary.status == "lost"


def test_the_first_records_leave_out_a_line_that_was_cut(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    append(paths, HEAD, 0.0)
    length = os.path.getsize(paths.events)
    append(paths, HEAD, 1.0)
    assert len(first_records(paths.events, first_bytes=length + 5)) == 1
    assert first_records(tmp_path / "none") == []
