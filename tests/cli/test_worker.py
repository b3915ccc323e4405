"""Parts of the worker by themselves."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainer import TrainerError
from trainer.cli.attempt import Attempt
from trainer.cli.ending import explain, summary
from trainer.cli.order import Order
from trainer.cli.prepare import split_words
from trainer.cli.rank import share_of_threads
from trainer.cli.system import SystemSampler
from trainer.cli.worker import RecordedSink, Report
from trainer.rundir import EndEvent, Event, MetricEvent, RunPaths, host_name


def test_an_order_is_the_same_on_the_other_side() -> None:
    order = Order(("a.yaml", "x=ü"), 15, ("trainer", "run"), name="n", resume=None, debug=True)
    assert Order.from_json(order.to_json()) == order


def test_words_with_an_equals_sign_are_values_unless_a_file_has_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert split_words(["a=1", "digits", "b=2"], resuming=False) == ("digits", ["a=1", "b=2"])
    (tmp_path / "lr=0.1.yaml").write_text("")
    assert split_words(["lr=0.1.yaml", "b=2"], resuming=False) == ("lr=0.1.yaml", ["b=2"])
    assert split_words(["a=1"], resuming=True) == (None, ["a=1"])


@pytest.mark.parametrize(("words", "resuming"), [([], False), (["a", "b"], False), (["a"], True)])
def test_words_that_name_no_one_config_are_refused(words: list[str], resuming: bool) -> None:
    with pytest.raises(TrainerError):
        split_words(words, resuming=resuming)


def test_an_attempt_ends_once(tmp_path: Path) -> None:
    written: list[Event] = []
    sink = RecordedSink(written.append, None, Attempt(RunPaths(tmp_path), 1, 0.0))
    sink(MetricEvent(7, 0.1, "train", {}))
    sink(EndEvent("done", 0))
    sink(EndEvent("interrupted", 143))
    assert [event.kind for event in written] == ["metric", "end"]
    assert sink.step == 7 and sink.ended == EndEvent("done", 0)


@pytest.mark.parametrize(
    ("returncode", "words", "status", "code", "said"),
    [
        (-2, "", "interrupted", 130, "before training"),
        (-15, "", "interrupted", 143, "before training"),
        (143, "", "interrupted", 143, "before training"),
        (-9, "", "failed", 1, "SIGKILL"),
        (-11, "", "failed", 1, "SIGSEGV"),
        (2, "disk full", "failed", 2, "disk full"),
        (1, "disk full", "failed", 1, "disk full"),
        (0, "", "failed", 1, "without a message"),
    ],
)
def test_a_worker_without_an_end_is_explained_by_how_it_ended(
    returncode: int, words: str, status: str, code: int, said: str
) -> None:
    end = explain(returncode, words, log="")
    assert (end.status, end.exit_code) == (status, code) and said in (end.reason or "")


def test_a_report_that_nobody_reads_does_not_disturb_the_worker(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    Report(writing).ready(Attempt(RunPaths(tmp_path), 2, 0.0))
    assert json.loads(os.read(reading, 4096)) == {"root": str(tmp_path), "attempt": 2, "process_start": 0.0}
    os.close(reading)
    Report(writing).mistake(TrainerError("x"), debug=False)
    os.close(writing)


def test_a_sample_has_memory_and_processor_use() -> None:
    sample = SystemSampler().sample()
    assert sample.memory is not None and sample.memory > 1e6
    assert sample.cpu is not None and sample.cpu >= 0


def test_the_summary_says_the_final_numbers_and_how_to_go_on(tmp_path: Path) -> None:
    attempt = Attempt(RunPaths(tmp_path), 1, time.time() - 7.0)
    assert summary(attempt) == []
    with attempt.writer() as write:
        write(EndEvent("stopped", 0, 7, 1.0, {"train/loss": 0.123456, "test/accuracy": 0.5, "test/loss": 1.0}))
    assert summary(attempt) == [
        f"{tmp_path}: stopped at step 7, took 7.0 s",
        "  test   accuracy 0.5  loss 1",
        "  train  loss 0.1235",
        f"  next   trainer run --resume {tmp_path}  continue training",
    ]


@pytest.mark.parametrize("predicts", [True, False])
def test_the_summary_leads_with_the_best_value_and_says_what_to_type_next(tmp_path: Path, predicts: bool) -> None:
    root = tmp_path / "my run"
    paths = RunPaths(root)
    folder = paths.checkpoints / "step-7"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"step": 7, "value": 0.25}))
    (folder / "state.json").write_text(json.dumps({"facts": {"predicts": predicts}}))
    (paths.checkpoints / "best").write_text("step-7\n")
    paths.config(1).write_text("task: t\ncheckpoint:\n  best:\n    metric: valid/coco/AP\n    mode: max\n")
    attempt = Attempt(paths, 1, time.time() - 90.0)
    metrics = {f"valid/coco/AR{index}": 0.5 for index in range(30)} | {"valid/coco/AP": 0.2, "test/coco/AP": 0.3}
    with attempt.writer() as write:
        write(EndEvent("done", 0, 9, 1.0, metrics))
    lines = summary(attempt)
    assert lines[:5] == [
        f"{root}: done at step 9, took 1:30",
        "  best     valid/coco/AP 0.25 at step 7",
        "  valid    coco/AP 0.2  coco/AR0 0.5  coco/AR1 0.5  coco/AR2 0.5  and 27 more",
        "  test     coco/AP 0.3",
        f"  weights  {folder} (best)",
    ]
    commands = "\n".join(lines[5:])
    assert (f"next     trainer predict '{root}' IMAGE" in commands) == predicts
    assert f"trainer report '{root}'" in commands and "--resume" not in commands


def test_ranks_share_the_cores_that_several_of_them_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = "trainer.engine.targets.cpu.topology."
    monkeypatch.setattr(topology + "affinity", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(topology + "available_threads", lambda: 4)

    def share(*others: tuple[str, list[int]]) -> int:
        group: Any = SimpleNamespace(to_all=lambda own: [own, *others])
        return share_of_threads(group)

    here = host_name()
    assert share() == share((here, [4, 5, 6, 7])) == share(("elsewhere", [0, 1, 2, 3])) == 4
    assert share((here, [0, 1, 2, 3])) == 2
    assert share((here, [3]), *[(here, [0, 1, 2, 3])] * 7) == 1
