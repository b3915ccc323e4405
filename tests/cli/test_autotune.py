"""`trainer autotune` and `trainer doctor cache`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainer import cli
from trainer.cli.verbs.autotune import summary
from trainer.learner import Learner
from trainer.rundir import AutotuneEvent


def run(*words: str) -> int:
    return cli.main(list(words))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one compiled kernel, one decision and one line that is none."""
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))
    from trainer.engine.autotune.cache import Entry, TuningCache, cache_path

    (tmp_path / "objects").mkdir(mode=0o700)
    (tmp_path / "objects" / "kernel.o").write_bytes(b"x" * 2_000_000)
    entry = Entry("abcdef0123", "matmul", "3x4x5", {"rows": 2}, 1.5, 1.0, 4, {"slower": 2})
    TuningCache(cache_path()).add(entry)
    return tmp_path


def test_the_caches_are_listed_with_what_is_in_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "cache", "--decisions") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"compiled kernels      {folder / 'objects'}: 1 files, 2.0 MB"
    assert lines[1].startswith(f"autotuning decisions  {folder / 'tuning'}: ") and lines[1].endswith(", 1 decisions")
    assert lines[2] == f"tokenized documents   {folder / 'tokens'}: 0 files, 0.0 MB"
    assert lines[3] == f"downloaded weights    {folder / 'weights'}: 0 files, 0.0 MB"
    assert lines[4] == f"received data         {folder / 'sent'}: 0 files, 0.0 MB"
    assert lines[5].split() == ["abcdef01", "1.500", "1.000", "ms", "matmul", "3x4x5"]
    run("doctor", "cache", "--json", "--decisions")
    told = json.loads(capsys.readouterr().out)
    assert [cache["decisions"] for cache in told["caches"]] == [None, 1, None, None, None]
    assert told["entries"][0]["parameters"] == {"rows": 2}


def test_the_caches_are_cleared_on_demand_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "cache") == 0 and (folder / "objects" / "kernel.o").exists()
    assert run("doctor", "cache", "--clear") == 0
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert capsys.readouterr().out.count("deleted") == 5


def test_what_belongs_to_the_cache_is_asked_of_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--clear") == 2
    assert "trainer doctor cache" in capsys.readouterr().err


def test_only_compiled_kernels_are_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("autotune", "digits", "device=reference") == 2
    assert "autotuning needs compiled kernels" in capsys.readouterr().err


def test_the_summary_lists_what_gained_within_80_columns() -> None:
    def decision(**values: Any) -> AutotuneEvent:
        return AutotuneEvent(**{"key": "k", "operation": "matmul", "shape": "3x4", "source": "measured", **values})

    lines = summary([
        decision(default_ms=2.0, best_ms=1.5),
        decision(default_ms=9.0, best_ms=6.0, shape="x" * 90),
        decision(default_ms=1.0, best_ms=1.0),
        decision(source="cache"),
    ])  # fmt: skip
    assert [line.split()[:3] for line in lines[1:3]] == [["9.000", "6.000", "33%"], ["2.000", "1.500", "25%"]]
    assert max(map(len, lines)) <= 80
    assert lines[-2] == "3 kernels chosen, 2 of them faster than the default by 3.50 ms per step"
    assert lines[-1] == "1 kernels had been chosen earlier"
    assert summary([]) == ["0 kernels chosen, 0 of them faster than the default by 0.00 ms per step"]


@pytest.mark.full
def test_a_tuned_recipe_trains_on_what_was_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert run("autotune", "digits", "--json") == 0
    decided = {event["key"] for event in json.loads(capsys.readouterr().out)}
    assert run("run", "digits", "train.epochs=1", "autotune.mode=cached", "--json") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert decided and {event["key"] for event in events if event["kind"] == "autotune"} == decided
    assert list(tmp_path.iterdir()) != [] and not (tmp_path / "runs" / "digits-2").exists()


def test_an_interrupted_tuning_tells_of_what_is_decided(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def autotune(self: Learner) -> None:
        self._sink(AutotuneEvent("key", "matmul", "3x4x5", 2.0, 1.5, 4, {}, 0.1, "measured"))
        raise KeyboardInterrupt

    monkeypatch.setattr(Learner, "autotune", autotune)
    assert run("autotune", "digits", "device=cpu") == 130
    told = capsys.readouterr()
    assert "1 kernels chosen, 1 of them faster than the default by 0.50 ms" in told.out
    assert "interrupted: decisions so far are stored," in told.err
