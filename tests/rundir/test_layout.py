"""Run directories: made under a free name, found again, refused in the user's words."""

import os
from pathlib import Path

import pytest

from trainer import TrainerError
from trainer.rundir import create_run, create_run_at, latest_run, list_runs


def started(root: Path, name: str, moment: float) -> None:
    config = create_run(root, name).config(1)
    config.write_text("task: digits\n")
    os.utime(config, (moment, moment))


def test_a_taken_name_gets_a_number(tmp_path: Path) -> None:
    assert [create_run(tmp_path / "runs", "digits").name for _ in range(3)] == ["digits", "digits-2", "digits-3"]


def test_the_folders_of_the_contract_are_there(tmp_path: Path) -> None:
    paths = create_run(tmp_path, "digits")
    for folder in (paths.checkpoints, paths.samples, paths.reports, paths.control):
        assert folder.is_dir()


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a\nb", "x" * 300])
def test_a_name_that_is_no_plain_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TrainerError, match="invalid name"):
        create_run(tmp_path, name)


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(TrainerError, match="can't write"):
        create_run(tmp_path / "runs", "digits")


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(TrainerError, match=r"permission denied[\s\S]*--run-dir"):
        create_run(tmp_path / "runs", "digits")


def test_runs_are_listed_by_when_their_last_attempt_started(tmp_path: Path) -> None:
    started(tmp_path, "b", 100.0)
    started(tmp_path, "a", 200.0)
    (tmp_path / "not-a-run").mkdir()
    (tmp_path / "file").write_text("")
    assert [run.name for run in list_runs(tmp_path)] == ["b", "a"]
    second = tmp_path / "b" / "config-2.yaml"
    second.write_text("task: digits\n")
    os.utime(second, (300.0, 300.0))
    latest = latest_run(tmp_path)
    assert latest is not None and latest.name == "b" and latest.last_attempt == 2


def test_no_folder_has_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "runs") == [] and latest_run(tmp_path / "runs") is None


def test_a_run_may_be_put_into_an_empty_folder_but_never_over_something(tmp_path: Path) -> None:
    (tmp_path / "mounted").mkdir()
    assert create_run_at(tmp_path / "mounted").control.is_dir()
    assert create_run_at(tmp_path / "a" / "new").name == "new"
    with pytest.raises(TrainerError, match="not empty"):
        create_run_at(tmp_path / "mounted")
