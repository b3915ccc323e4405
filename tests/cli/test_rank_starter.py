"""When the ranks of this machine have to end, and which was lost."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from trainer.cli.exit_codes import RANK_LOST
from trainer.cli.rank_starter import SECONDS_TO_END, SECONDS_TO_FAIL, SECONDS_TO_SAY_SO, loss_of
from trainer.learner.ranks.start import _STAYING, failed, forget_failed
from trainer.rundir import host_name


def beat(folder: Path, rank: int, **fields: Any) -> None:
    """Writes the heartbeat of a rank that lives."""
    known = {"pid": os.getpid(), "started": None, "host": host_name(), **fields}
    (folder / f"{rank}.json").write_text(json.dumps(known))


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -KILL $$", -9), ("exit 0", None)])
def test_a_process_that_fails_is_noted_with_its_rank(tmp_path: Path, script: str, code: int | None) -> None:
    (tmp_path / "sleep").write_text("#!/bin/sh\n")  # in place of the long wait
    (tmp_path / "sleep").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PMI_RANK": "2"}
    folder = tmp_path / "ranks" / "1"
    subprocess.run(["sh", "-c", _STAYING, str(folder), "sh", "-c", script], env=environment, check=True)
    assert failed(folder) == ({} if code is None else {2: code})
    forget_failed(folder)
    assert failed(folder) == {}


def test_all_ranks_end_at_once_if_one_fails_before_its_heartbeat(tmp_path: Path) -> None:
    beat(tmp_path, 0)
    (tmp_path / "2.ended.137").mkdir()
    assert loss_of(tmp_path) == (2, 0.0)


def test_the_first_rank_has_a_few_seconds_to_name_one_that_is_lost(tmp_path: Path) -> None:
    beat(tmp_path, 0)
    beat(tmp_path, 1)
    assert loss_of(tmp_path) is None
    (tmp_path / "1.ended.1").mkdir()
    assert loss_of(tmp_path) == (1, SECONDS_TO_FAIL)
    beat(tmp_path, 2)
    (tmp_path / f"2.ended.{RANK_LOST}").mkdir()
    assert loss_of(tmp_path) == (2, SECONDS_TO_SAY_SO)
    beat(tmp_path, 0, failure="rank 2 died")  # it ends by itself
    assert loss_of(tmp_path) is None
    beat(tmp_path, 0, failure="rank 2 died", started=-1)
    assert loss_of(tmp_path) == (0, SECONDS_TO_END)
