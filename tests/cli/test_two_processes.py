"""Two commands and one run directory: one trains, the other is refused and leaves no trace."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.cli.conftest import Commands, ended, eventually

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")


def test_of_two_that_resume_a_killed_run_at_once_one_is_refused_and_leaves_nothing(commands: Commands) -> None:
    process = commands.script("loop", "--in-process")
    commands.worker_pid()
    process.send_signal(signal.SIGKILL)  # its lock is left behind
    process.wait()
    run = commands.folder / "runs/scripted"
    (run / "checkpoints/step-1").mkdir(parents=True)
    assert (run / "run.lock").exists()
    both = [commands.start("run", "--resume", "runs/scripted", "--plain") for _ in range(2)]
    eventually(lambda: any(one.poll() is not None for one in both))
    loser, winner = sorted(both, key=lambda one: one.poll() is None)
    done = ended(loser)
    assert done.returncode == 2 and "another process is training this run" in done.stderr and "since" in done.stderr
    owner = json.loads((run / "run.lock").read_text())
    assert f"pid {owner['pid']} on {owner['host']}" in done.stderr
    eventually(lambda: any(event["attempt"] == 2 for event in commands.events()))  # before, there is no attempt to end
    winner.terminate()
    assert ended(winner).returncode == 143
    assert [event["attempt"] for event in commands.events() if event["kind"] in ("run", "end")] == [1, 2, 2]
    assert sorted(path.name for path in run.glob("config-*")) == ["config-1.yaml", "config-2.yaml"]
    assert not (run / "run.lock").exists()


def test_a_run_that_trains_is_not_taken_up_a_second_time(commands: Commands) -> None:
    first = commands.script("loop")
    pid = commands.worker_pid()
    for words in (("--resume", "runs/scripted"), ("config.yaml", "--resume", "auto")):
        done = commands.finish("run", *words, "--plain")
        assert done.returncode == 2 and f"pid {pid} on" in done.stderr, done.stderr
    first.terminate()
    assert ended(first).returncode == 143
    assert {event["attempt"] for event in commands.events()} == {1}
