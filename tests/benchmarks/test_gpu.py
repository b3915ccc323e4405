"""benchmarks/gpu.py: bars are held against PyTorch's eager mode, and what could not be measured says why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.targets.cuda.recorder import Recorder

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import gpu


def test_a_bar_is_a_ratio_of_times_or_a_share() -> None:
    assert gpu.Row("step", "ms", 10.0, 12.0, bar=1.2).is_reached is True
    assert gpu.Row("step", "ms", 11.0, 12.0, bar=1.2).is_reached is False
    assert gpu.Row("busy", "share", 0.99, bar=0.98).is_reached is True
    assert gpu.Row("step", "ms", None, 12.0, bar=1.2, note="no kernel").is_reached is None


def test_a_recipes_step_is_timed_between_its_first_and_last_record() -> None:
    metrics = [{"kind": "metric", "split": "train", "step": step, "time": 100 + step / 10} for step in (10, 20, 30)]
    row = gpu._recipe_row("digits", [*metrics, {"kind": "end", "status": "done"}], "")
    assert row.value == pytest.approx(100)
    failed = gpu._recipe_row("digits", [{"kind": "end", "status": "failed", "reason": "no kernel\nfound: x"}], "")
    assert failed.value is None and failed.note == "no kernel"
    assert gpu._recipe_row("digits", [], "error: unknown\nmore").note == "error: unknown"


def test_two_gpus_are_held_against_one(monkeypatch: pytest.MonkeyPatch) -> None:
    (missing,) = gpu.two_gpus(gpu.Clock(60), 1)
    assert missing.is_reached is None and missing.note == "there is one GPU"

    def losses(*values: float) -> tuple[list[Any], str]:
        metrics = [
            {"kind": "metric", "split": "train", "step": step, "time": step, "values": {"loss": value}}
            for step, value in enumerate(values)
        ]
        return [*metrics, {"kind": "end", "status": "done"}], ""

    for other, is_reached in (((0.5, 0.25), True), ((0.5, 0.26), False)):
        runs = iter([losses(0.5, 0.25), losses(*other)])
        monkeypatch.setattr(gpu, "_trained", lambda *_, runs=runs: next(runs))
        assert gpu.two_gpus(gpu.Clock(60), 2)[0].is_reached is is_reached
    monkeypatch.setattr(gpu, "_trained", lambda *_: ([{"kind": "end", "status": "failed", "reason": "no NCCL"}], ""))
    (failed,) = gpu.two_gpus(gpu.Clock(60), 2)
    assert failed.is_reached is False and "no NCCL" in failed.note


def test_without_a_gpu_the_command_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu.driver, "load", lambda: Recorder(gpus=0))
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    assert gpu.main() == 2
    assert "there is no GPU" in capsys.readouterr().err


def test_what_is_left_when_the_time_is_up_is_not_started() -> None:
    assert gpu.measured(gpu.Clock(0), ["no such program"]) == (None, "no time left")
    answers = "import sys\nfor number, _ in enumerate(sys.stdin): print(3 - number, flush=True)"
    assert gpu.measured(gpu.Clock(60), [sys.executable, "-c", answers]) == (2, "")
    value, note = gpu.measured(gpu.Clock(60), [sys.executable, "-c", "input()"])
    assert value is None and "ended with 0" in note


def test_the_results_are_a_table_and_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def passed(clock: Any, *, emulated: bool) -> list[Any]:
        return [gpu.Row("tests", "passed", 1.0, bar=1.0, note="88 passed")]

    monkeypatch.setattr(gpu.driver, "load", Recorder)
    monkeypatch.setattr(gpu, "tests", passed)
    file = tmp_path / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--emulated", "--json", str(file)])
    monkeypatch.setenv(gpu.driver.VARIABLE, "")
    assert gpu.main() == 0
    assert "88 passed" in capsys.readouterr().out
    (row,) = json.loads(file.read_text())["rows"]
    assert row["reached"] is True and row["name"] == "tests"
