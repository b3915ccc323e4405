"""Other tools that are reported a run."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Commands
from tests.tui.synthetic_run import append, make_folder, write_run
from trainer import TrainerError
from trainer.cli import main
from trainer.cli.sinks import Sink, make_sink
from trainer.cli.sinks.follow import follow
from trainer.cli.sinks.follow import main as follow_main
from trainer.rundir import EndEvent, MetricEvent, Record, ResumedEvent, RunPaths, read_events


def rows(file: Path) -> list[dict[str, str]]:
    with open(file, newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def test_csv_has_every_number_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = write_run(tmp_path / "runs/digits")
    assert main(["runs", "export", "digits", "--to", "csv", "path=numbers.csv"]) == 0
    assert capsys.readouterr().out.endswith(" records to numbers.csv\n")
    assert main(["runs", "export", "digits", "--to", "csv", "path=numbers.csv"]) == 2, "rows would stand there twice"
    assert "the file already exists" in capsys.readouterr().err
    told = [(event.step, event.split, name, value) for record in read_events(paths.events)
            if isinstance(event := record.event, MetricEvent) for name, value in event.values.items()]  # fmt: skip
    found = [(int(row["step"]), row["split"], row["name"], float(row["value"])) for row in rows(Path("numbers.csv"))]
    assert found == told and len(told) > 700


def test_what_a_resumed_attempt_took_back_leaves_the_csv(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    sink = make_sink("csv", paths, {})
    for step in (1, 2, 3):
        sink.record(Record(MetricEvent(step, 0.0, "train", {"loss": 1.0 / step}), 0.0, 0.0, 1))
    sink.record(Record(MetricEvent(1, 0.0, "valid", {"loss": 4.0}), 0.0, 0.0, 1))
    sink.close()
    later = make_sink("csv", paths, {})
    later.record(Record(ResumedEvent(1), 0.0, 0.0, 2))
    later.record(Record(MetricEvent(1, 0.0, "valid", {"loss": 5.0}), 0.0, 0.0, 2))  # measured again
    later.record(Record(MetricEvent(2, 0.0, "train", {"loss": float("nan")}), 0.0, 0.0, 2))
    later.close()
    assert [(row["attempt"], row["step"], row["value"]) for row in rows(paths.root / "metrics.csv")] == [
        ("1", "1", "1.0"), ("2", "1", "5.0"), ("2", "2", "nan"),
    ]  # fmt: skip


def test_a_run_tells_its_sinks_while_it_trains(commands: Commands) -> None:
    done = ended = commands.finish("run", "config.yaml", "--plain", "sinks=[csv]")
    assert done.returncode == 0, ended.stderr
    written = rows(commands.folder / "runs/scripted/metrics.csv")
    told = [event for event in commands.events() if event["kind"] == "metric"]
    assert {int(row["step"]) for row in written} == {event["step"] for event in told}
    assert len(written) == sum(len(event["values"]) for event in told)


def test_a_sink_that_fails_is_a_warning_and_training_goes_on(commands: Commands) -> None:
    sinks = "sinks=[{name: csv, options: {path: none/metrics.csv}}]"
    done = commands.finish("run", "config.yaml", "--plain", sinks)
    assert done.returncode == 0, done.stderr
    (warning,) = [event for event in commands.events() if event["kind"] == "warning" and event.get("where") == "sinks"]
    assert "the sink csv failed: FileNotFoundError" in warning["message"]


def test_an_unknown_sink_is_refused_before_training(commands: Commands) -> None:
    done = commands.finish("run", "config.yaml", "--plain", "sinks=[tensorbored]")
    assert done.returncode == 2 and "unknown sink tensorbored" in done.stderr


COUNTED = """
from trainer.cli.sinks import Sink


class Counted(Sink):
    def __init__(self, paths, file):
        super().__init__(paths)
        self.file, self.count = paths.root / file, 0

    def record(self, record):
        self.count += 1

    def close(self):
        self.file.write_text(str(self.count))
"""


class Kept(Sink):
    """Another package's sink."""

    taken: list[Any] = []

    def record(self, record: Record) -> None:
        self.taken.append(record.event)


def test_another_package_may_offer_a_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("kept", f"{__name__}:Kept", "trainer.sinks")
    monkeypatch.setattr(point.__class__, "load", lambda self: Kept)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point] if group == "trainer.sinks" else [])
    assert isinstance(make_sink("kept", make_folder(tmp_path / "run"), {}), Kept)
    with pytest.raises(TrainerError, match="can't be created with these options"):
        make_sink("kept", make_folder(tmp_path / "run"), {"color": "red"})


def test_a_package_that_is_installed_offers_a_sink_by_its_entry_point(tmp_path: Path, commands: Commands) -> None:
    site, package = tmp_path / "site", tmp_path / "site" / "counted-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: counted\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[trainer.sinks]\ncounted = counted_sink:Counted\n")
    (site / "counted_sink.py").write_text(COUNTED)
    paths = write_run(tmp_path / "run")
    commands.environment["PYTHONPATH"] += f"{os.pathsep}{site}"
    done = commands.finish("runs", "export", str(paths.root), "--to", "counted", "file=count.txt")
    assert done.returncode == 0, done.stderr
    assert (paths.root / "count.txt").read_text() == str(len(read_events(paths.events)))


def test_a_sink_follows_its_attempt_to_the_end(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    append(paths, MetricEvent(1, 0.0, "train", {"loss": 1.0}), 0.0, attempt=1)
    append(paths, MetricEvent(2, 0.0, "train", {"loss": 0.5}), 0.0, attempt=2)
    append(paths, EndEvent("done", 0, 2), 0.0, attempt=2)
    follow(paths, sink := Kept(paths), attempt=2, worker=os.getpid())
    assert [type(event) for event in sink.taken] == [MetricEvent, EndEvent] and sink.taken[0].step == 2


def test_a_sink_ends_with_the_worker(tmp_path: Path) -> None:
    paths: RunPaths = make_folder(tmp_path / "run")
    append(paths, MetricEvent(1, 0.0, "train", {"loss": 1.0}), 0.0)
    order = {"name": "csv", "options": {}, "attempt": 1, "worker": 2**22 + 1, "process_start": 0.0}
    assert follow_main([str(paths.root), json.dumps(order)]) == 0
    assert len(rows(paths.root / "metrics.csv")) == 1


def test_tensorboard_reads_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    paths = write_run(tmp_path / "run", has_shown=True)
    sink = make_sink("tensorboard", paths, {"folder": str(tmp_path / "board")})
    for record in read_events(paths.events):
        sink.record(record)
    sink.close()
    board = accumulator.EventAccumulator(
        str(tmp_path / "board"), size_guidance={"scalars": 0, "images": 0, "tensors": 0}
    )
    board.Reload()
    tags = board.Tags()
    assert {"train/loss", "valid/accuracy", "test/accuracy"} <= set(tags["scalars"])
    assert [event.step for event in board.Scalars("valid/loss")] == list(range(120, 961, 120))
    assert set(tags["images"]) == {"valid/cells", "valid/plain"} and "valid/words" in tags["tensors"]
    assert board.Images("valid/cells")[0].width == 64
    metadata = board.SummaryMetadata("_hparams_/session_start_info")
    assert metadata.plugin_data.plugin_name == "hparams"


def test_wandb_writes_an_offline_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    paths = write_run(tmp_path / "run", has_shown=True)
    sink = make_sink("wandb", paths, {})
    for record in read_events(paths.events):
        sink.record(record)
    sink.close()
    (run,) = (paths.root / "wandb").glob("offline-run-*")
    (file,) = run.glob("*.wandb")
    told = file.read_bytes()
    for name in (b"train/loss", b"valid/accuracy", b"test/accuracy", b"learning_rate"):
        assert name in told
    shown = {path.name.partition("_")[0] for path in run.glob("files/media/*/valid/*")}
    assert shown == {"cells", "plain", "words"}


def test_mlflow_keeps_parameters_and_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    paths = write_run(tmp_path / "run", epochs=1, has_shown=True)
    sink = make_sink("mlflow", paths, {})
    for record in read_events(paths.events):
        sink.record(record)
    sink.close()
    client = mlflow.MlflowClient(f"sqlite:///{paths.root / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("trainer").experiment_id])
    assert run.info.status == "FINISHED" and run.data.params["optimizer.learning_rate"] == "0.001"
    assert run.data.metrics["test/accuracy"] == 0.9913
    assert {file.path for file in client.list_artifacts(run.info.run_id, "samples/step-60")} == {
        f"samples/step-60/{name}" for name in ("cells.png", "plain.png", "words.txt")
    }
    assert not list(elsewhere.iterdir()), "nothing lands in the folder that one is in"
