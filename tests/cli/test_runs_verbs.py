"""`trainer runs rm`, `prune` and `tag`, and names of runs wherever a run is taken."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.tui.synthetic_run import append, make_folder, write_run
from trainer.cli import main
from trainer.cli.verbs import runs_prune
from trainer.learner.checkpoints.format import folder_name, point
from trainer.rundir import EndEvent, RunLock, RunPaths, read_tags


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`one` is done and has three checkpoints, `two` failed."""
    monkeypatch.chdir(tmp_path)
    one = write_run(tmp_path / "runs/one")
    for step in (10, 20, 30):
        (one.checkpoints / folder_name(step)).mkdir()
        (one.checkpoints / folder_name(step) / "manifest.json").write_text("{}" * step)
    point(one.checkpoints, "latest", 30)
    point(one.checkpoints, "best", 10)
    append(make_folder(tmp_path / "runs/two"), EndEvent("failed", 1, 20), 3.0)
    return tmp_path / "runs"


def kept(paths: Path) -> list[str]:
    return sorted(path.name for path in (paths / "one" / "checkpoints").glob("step-*"))


def test_rm_deletes_the_runs_that_it_names(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "rm", "two", "runs/two", "--yes"]) == 0
    assert "deleted runs/two" in capsys.readouterr().out
    assert [path.name for path in runs.iterdir()] == ["one"]


def test_rm_asks_and_takes_nothing_else_for_yes(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "rm", "two"]) == 2
    assert "Add --yes" in capsys.readouterr().err
    answers = iter(["\n", "no\n", "y\n"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: next(answers), raising=False)
    for is_left in (True, True, False):
        assert main(["runs", "rm", "two"]) == 0
        assert (runs / "two").exists() == is_left


def test_a_run_that_trains_is_not_deleted(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_folder(runs / "three")
    lock = RunLock(RunPaths(runs / "three"))
    lock.acquire()
    try:
        assert main(["runs", "rm", "one", "three", "--yes"]) == 2
        said = capsys.readouterr().err
        assert "runs/three: this run is still training" in said and "trainer stop three" in said
        assert main(["runs", "prune", "--older-than", "0", "--yes"]) == 0
        assert "three is still training" in capsys.readouterr().out
        assert [path.name for path in runs.iterdir()] == ["three"]
    finally:
        lock.release()


def test_prune_leaves_the_latest_and_the_best_checkpoint(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "prune", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "runs/one/checkpoints/step-20" in told and "1 to delete" in told and len(kept(runs)) == 3
    assert main(["runs", "prune", "--yes"]) == 0
    assert kept(runs) == [folder_name(10), folder_name(30)]
    assert (runs / "two").exists() and not (runs / "one" / "run.lock").exists()


def test_prune_keeps_the_last_checkpoint_where_none_is_named(runs: Path) -> None:
    for name in ("latest", "best"):
        (runs / "one" / "checkpoints" / name).unlink()
    assert main(["runs", "prune", "one", "--yes"]) == 0
    assert kept(runs) == [folder_name(30)]


def test_prune_deletes_runs_that_failed_or_are_old(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "prune", "--failed", "--older-than", "5", "--yes"]) == 0
    assert "0 to delete" in capsys.readouterr().out and (runs / "two").exists()
    assert main(["runs", "prune", "--failed", "--yes"]) == 0
    assert not (runs / "two").exists() and len(kept(runs)) == 3
    before = time.time() - 6 * runs_prune.DAY
    os.utime(runs / "one" / "events.jsonl", (before, before))
    assert main(["runs", "prune", "--older-than", "5", "--yes"]) == 0
    assert not (runs / "one").exists()


def test_tags_are_stored_shown_and_taken_away(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "tag", "one", "paper", "baseline", "paper"]) == 0
    assert capsys.readouterr().out == "one: baseline paper\n"
    assert read_tags(RunPaths(runs / "one")) == ("baseline", "paper")
    main(["runs"])
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[-1] == "tags" and {row.split()[0]: row.split()[-1] for row in rows}["two"] == "-"
    main(["runs", "--tag", "paper", "--json"])
    (line,) = capsys.readouterr().out.splitlines()
    assert (json.loads(line)["name"], json.loads(line)["tags"]) == ("one", ["baseline", "paper"])
    assert main(["runs", "tag", "one", "paper", "--remove"]) == 0
    assert read_tags(RunPaths(runs / "one")) == ("baseline",)


@pytest.mark.parametrize(
    ("words", "told"),
    [(("one", "two words"), "invalid tag"), (("one", "absent", "--remove"), "the run has no such tag"),
     (("on", "x"), "no such run: on, did you mean 'one'?")],
)  # fmt: skip
def test_mistakes_about_tags(runs: Path, words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "tag", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [("watch", "one", "--plain"), ("compare", "one", "one"), ("report", "one"), ("runs", "tag", "one"),
     ("runs", "export", "one", "--to", "csv"), ("runs", "prune", "one", "--dry-run"),
     ("checkpoint", "verify", "one")],
)  # fmt: skip
def test_a_name_stands_for_the_run(runs: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*words])
    said = capsys.readouterr()
    assert "no such" not in said.err and ("one" in said.out)
    assert code == (1 if words[0] == "checkpoint" else 0), "its checkpoints are not whole"


@pytest.mark.parametrize("words", [("checkpoint", "inspect", "on"), ("checkpoint", "verify", "on"), ("stop", "on")])
def test_a_name_that_is_no_run_is_told_the_nearest(
    runs: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words]) == 2
    assert "no such run: on, did you mean 'one'?" in capsys.readouterr().err
