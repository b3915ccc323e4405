"""`trainer runs list` and `trainer compare`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.tui.synthetic_run import CONFIG, append, make_folder, write_run
from trainer.cli import main
from trainer.cli.curves import overlaid
from trainer.cli.runs_table import columns_of, configs_of, drawn
from trainer.rundir import EndEvent, MetricEvent, RunEvent, heartbeat, list_runs, open_run, summarize, write_tags
from trainer.tui.comparison import ABSENT, compare


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs `one` (done) and `two` (failed, another learning rate, a worse accuracy)."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs/one")
    paths = make_folder(tmp_path / "runs/two")
    paths.config(1).write_text(CONFIG.replace("0.001", "0.1").replace("  epochs: 8", "  minutes: 3"))
    append(paths, MetricEvent(10, 1.0, "valid", {"accuracy": 0.25, "loss": 1.0}), 1.0)
    append(paths, MetricEvent(20, 2.0, "valid", {"accuracy": 0.5, "loss": float("nan")}), 2.0)
    append(paths, EndEvent("failed", 1, 20), 3.0)
    return tmp_path


def test_runs_lists_each_run_with_its_status_and_metrics(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 0
    header, one, two = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "run", "task", "status", "started", "took", "step", "test/accuracy", "valid/accuracy", "valid/loss",
    ]  # fmt: skip
    assert one.split()[:3] == ["one", "digits", "done"] and "0.9913" in one.split()
    assert two.split()[:3] == ["two", "-", "failed"] and two.split()[-3:] == ["-", "0.5", "nan"]


def test_the_best_of_a_metric_comes_last(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["runs", "--sort", "valid/accuracy", "--json"])
    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["two", "one"]
    main(["runs", "--sort", "valid/loss", "--json"])  # two's is nan: not better than anything
    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["two", "one"]


@pytest.fixture
def monitored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs `a`, `b`, `c` of one task that monitor a loss, each with a best checkpoint and a learning rate."""
    monkeypatch.chdir(tmp_path)
    for name, rate, value, tags in (("a", "0.001", 0.5, ["new"]), ("b", "1e-3", 0.25, []), ("c", "0.1", 0.75, [])):
        paths = make_folder(tmp_path / "runs" / name)
        best = "checkpoint:\n  best:\n    metric: valid/loss\n    mode: min\n"
        paths.config(1).write_text(CONFIG.replace("0.001", rate) + best)
        append(paths, RunEvent(name, "/mine/task.py:Cells", "1", 1, "host", "cpu"), 0.0)
        append(paths, MetricEvent(10, 1.0, "valid", {"loss": value, "accuracy": 0.9}), 1.0)
        append(paths, MetricEvent(20, 2.0, "valid", {"loss": 0.9, "accuracy": 0.8}), 2.0)
        append(paths, EndEvent("done", 0, 20), 3.0)
        (paths.checkpoints / "step-10").mkdir()
        (paths.checkpoints / "step-10" / "manifest.json").write_text(json.dumps({"step": 10, "value": value}))
        (paths.checkpoints / "best").write_text("step-10\n")
        write_tags(paths, tags)
    return tmp_path


def test_the_best_value_of_the_monitored_metric_and_what_differs_are_in_the_table(
    monitored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split("  ")[-1] == "tags" and "best valid/loss" in header and header.split()[-2] == "learning_rate"
    assert [row.split()[:3] for row in rows] == [[name, "Cells", "done"] for name in "abc"]
    assert "0.5 @ 10" in rows[0] and "0.25 @ 10" in rows[1] and "0.9" not in rows[1].split(" @ ")[1].split()[1:3]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--sort", "best"), "cab"),
        (("--sort", "best", "--reverse"), "bac"),
        (("--sort", "optimizer.learning_rate"), "abc"),
        (("--sort", "name", "--reverse"), "cba"),
        (("--where", "optimizer.learning_rate=0.001"), "ab"),
        (("--where", "task=Cells", "--where", "train.epochs=8", "--status", "done"), "abc"),
        (("--where", "optimizer.name=sgd"), ""),
        (("--tag", "new"), "a"),
    ],
)
def test_runs_are_sorted_and_filtered(
    monitored: Path, words: tuple[str, ...], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", *words, "--json"]) == 0
    assert "".join(json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()) == names


def test_a_run_in_json_has_its_best_value_its_config_and_its_note(
    monitored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["runs", "tag", "b", "--note", "longer warm-up"])
    assert capsys.readouterr().out == "b: no tags\nlonger warm-up\n"
    main(["runs", "--where", "optimizer.learning_rate=1e-3", "--sort", "best", "--json"])
    run = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (run["name"], run["task"], run["monitored"], run["best"]) == ("b", "Cells", "valid/loss",
                                                                        {"value": 0.25, "step": 10})  # fmt: skip
    assert run["config"]["optimizer.learning_rate"] == "1e-3" and run["note"] == "longer warm-up"


def test_a_narrow_terminal_leaves_columns_out_and_names_them(monitored: Path) -> None:
    runs = [summarize(paths) for paths in list_runs(monitored / "runs")]
    columns = columns_of(runs, configs_of(runs), ["valid/accuracy"], ["optimizer.learning_rate"])
    text, left_out = drawn(columns, 60)
    assert max(map(len, text.splitlines())) <= 60 and "best valid/loss" in text
    assert left_out == ["task", "started", "step", "learning_rate"]
    assert drawn(columns, None)[1] == []


def test_runs_in_json_says_numbers_that_are_not_finite_as_events_do(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "--status", "failed", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["metrics"] == {"valid/accuracy": 0.5, "valid/loss": "nan"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["runs", "list", "elsewhere"], "no runs here"),
        (["runs", "elsewhere"], "unknown command: runs elsewhere"),
        (["runs", "--metric", "valid/acuracy"], "did you mean 'valid/accuracy'?"),
        (["runs", "--key", "optimizer.rate"], "no run has the config key optimizer.rate"),
        (["runs", "--where", "train.epochs"], "--where takes a config key and a value"),
        (["runs", "--sort", "nothing"], "no run has the metric, config key or column nothing"),
        (["compare", "one"], "2 to 26 runs"),
        (["compare", "one", "tow"], "no such run: tow, did you mean 'two'?"),
        (["compare", "one", "two", "--metric", "loss"], "none of these runs has the metric loss"),
    ],
)
def test_mistakes_are_told(runs: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert told in capsys.readouterr().err


def test_a_comparison_tells_best_values_and_only_what_differs(runs: Path) -> None:
    found = compare([open_run(runs / "runs/one"), open_run(runs / "runs/two")])
    assert found.names == ("one", "two")
    assert dict(found.config) == {
        "optimizer.learning_rate": (0.001, 0.1),
        "train.epochs": (8, ABSENT),
        "train.minutes": (ABSENT, 3),
    }
    one, two = found.metrics["valid/loss"]
    assert one is not None and one.best == one.last == min(open_run(runs / "runs/one").metrics["valid/loss"].value)
    assert two is not None and (two.best, two.best_step) == (1.0, 10) and two.last != two.last
    assert found.metrics["test/accuracy"][1] is None


def test_compare_prints_table_curves_and_differences(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "one", "two"]) == 0
    text = capsys.readouterr().out
    assert "A  one  (done)" in text and "B  two  (failed)" in text
    assert "valid/accuracy   (* marks overlapping curves)" in text
    assert "optimizer.learning_rate  0.001  0.1" in text and "environment: no difference" in text


def test_compare_in_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "one", "two", "--json"]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [run["status"] for run in told["runs"]] == ["done", "failed"]
    assert told["metrics"]["valid/loss"][1] == {"last": "nan", "last_step": 20.0, "best": 1.0, "best_step": 10.0}
    assert told["config"]["train.minutes"] == ["-", 3]


def test_curves_that_rise_and_fall_stand_where_their_values_are(tmp_path: Path) -> None:
    rising, falling = make_folder(tmp_path / "a"), make_folder(tmp_path / "b")
    for step in range(9):
        append(rising, MetricEvent(step, 0.0, "train", {"x": float(step)}), 0.0)
        append(falling, MetricEvent(step, 0.0, "train", {"x": float(8 - step)}), 0.0)
    series = {"A": open_run(rising.root).metrics["train/x"], "B": open_run(falling.root).metrics["train/x"]}
    lines = overlaid(series, 30, 10)
    assert lines[0].startswith("8│B") and lines[0].endswith("A")
    assert lines[8].startswith("0│A") and lines[8].endswith("B")
    assert any("*" in line for line in lines[3:6]) and lines[9].endswith("step 8")


def test_a_run_of_another_machine_is_running_if_it_is_heard_of_whatever_the_clocks_say(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two look gone for seven minutes by the clock here; one of their heartbeats moves. A third is long gone."""
    ages = {"moving": 420, "still": 420, "old": 86_400}
    for name, age in ages.items():
        paths = make_folder(runs / "runs" / name)
        append(paths, MetricEvent(10, 1.0, "valid", {"accuracy": 0.25}), 1.0)
        paths.lock.write_text(json.dumps({"pid": 7, "host": "elsewhere"}))
        os.utime(paths.lock, (time.time() - age,) * 2)
    moving = runs / "runs/moving/run.lock"
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        os.utime(moving, (time.time() - 418,) * 2)

    monkeypatch.setattr(
        "trainer.cli.summaries.moving_heartbeats", lambda locks: heartbeat.moving_heartbeats(locks, sleep)
    )
    assert main(["runs", "--json"]) == 0
    told = {run["name"]: run["status"] for run in map(json.loads, capsys.readouterr().out.splitlines())}
    assert told == {"one": "done", "two": "failed", "moving": "running", "still": "lost", "old": "lost"}
    assert sum(waits) == heartbeat.WATCHED_SECONDS
