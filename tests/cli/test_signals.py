"""Signals, parents that die, workers that die: nothing is lost, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.conftest import Commands, ended, eventually
from trainer.rundir import process_is_alive

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_to_the_command_stops_the_worker_after_its_step_with_a_checkpoint(
    commands: Commands, number: signal.Signals, code: int
) -> None:
    process = commands.script("loop")
    pid = commands.worker_pid()
    process.send_signal(number)
    done = ended(process)
    assert (done.returncode, done.stderr) == (code, "")
    kinds = [event["kind"] for event in commands.events()]
    assert kinds[-1] == "end" and "checkpoint" in kinds
    end = commands.events()[-1]
    assert (end["status"], end["exit_code"]) == ("interrupted", code)
    assert not process_is_alive(pid)


def test_one_ctrl_c_that_reaches_command_and_worker_counts_once(commands: Commands) -> None:
    process = commands.script("loop")
    commands.worker_pid()
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process).returncode == 130
    assert any(event["kind"] == "checkpoint" for event in commands.events())


@pytest.mark.parametrize("whom", ["command", "worker", "group"])
def test_sigusr1_writes_one_checkpoint_and_goes_on(commands: Commands, whom: str) -> None:
    process = commands.script("loop", "sinks=[csv]")
    worker = commands.worker_pid()
    if whom == "group":
        os.killpg(process.pid, signal.SIGUSR1)  # which the sink's process is in, too
    else:
        os.kill(process.pid if whom == "command" else worker, signal.SIGUSR1)
    saved = commands.event("checkpoint", reasons=["requested"])
    eventually(
        lambda: any(event["kind"] == "metric" and event["step"] > saved["step"] + 1 for event in commands.events())
    )
    process.terminate()
    done = ended(process)
    assert (done.returncode, done.stderr) == (143, "")
    assert [event["state"] for event in commands.events() if event["kind"] == "request"] == ["done"]
    assert (commands.folder / "runs/scripted/metrics.csv").is_file()


def test_sigusr1_before_there_is_a_learner_waits_for_it(commands: Commands) -> None:
    task = (commands.folder / "task.py").read_text()
    wait = "import pathlib, time\nprint('importing', flush=True)\n"
    wait += "while not pathlib.Path('go').exists():\n    time.sleep(0.01)\n"
    (commands.folder / "task.py").write_text(wait + task)
    process = commands.script("loop")
    log = commands.folder / "runs/scripted/log.txt"
    eventually(lambda: log.exists() and "importing" in log.read_text())
    process.send_signal(signal.SIGUSR1)
    eventually(lambda: list((commands.folder / "runs/scripted/control").glob("*.json")))
    (commands.folder / "go").touch()
    commands.event("checkpoint", reasons=["requested"])
    process.terminate()
    assert ended(process).returncode == 143


def test_a_signal_while_the_worker_still_imports_ends_it_at_once(commands: Commands) -> None:
    (commands.folder / "task.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(3600)\n")
    process = commands.start("run", "config.yaml")
    log = commands.folder / "runs/scripted/log.txt"
    eventually(lambda: log.exists() and "importing" in log.read_text())
    process.send_signal(signal.SIGINT)
    assert ended(process).returncode == 130
    end = commands.events()[-1]
    assert (end["kind"], end["status"], end["exit_code"]) == ("end", "interrupted", 130)


def test_a_worker_that_does_not_listen_ends_at_a_further_signal(commands: Commands) -> None:
    process = commands.script("stuck")
    commands.worker_pid()
    process.terminate()
    commands.event("log")

    def ends_by_signals() -> bool:
        has_ended = commands.events()[-1]["kind"] == "end"
        if not has_ended:
            process.terminate()
        return has_ended

    eventually(ends_by_signals)
    assert ended(process).returncode == 143
    end = commands.events()[-1]
    assert (end["status"], end["exit_code"]) == ("interrupted", 143) and "second signal" in end["reason"]


def test_a_worker_dies_with_the_command_that_started_it(commands: Commands) -> None:
    process = commands.script("loop")
    pid = commands.worker_pid()
    process.kill()
    process.wait()
    eventually(lambda: not process_is_alive(pid))
    assert commands.event("end")["status"] == "interrupted"


def test_a_worker_killed_by_the_system_is_reported(commands: Commands) -> None:
    process = commands.script("loop")
    os.kill(commands.worker_pid(), signal.SIGKILL)
    done = ended(process)
    assert done.returncode == 1 and "killed by SIGKILL" in done.stderr and "memory" in done.stderr
    end = commands.events()[-1]
    assert (end["kind"], end["status"]) == ("end", "failed")


def test_the_worker_of_a_run_without_a_terminal_is_in_the_commands_process_group(commands: Commands) -> None:
    process = commands.script("loop")
    pid = commands.worker_pid()
    assert os.getpgid(pid) == os.getpgid(process.pid)
    process.terminate()
    ended(process)


def test_output_that_nobody_reads_any_more_ends_the_run(commands: Commands) -> None:
    process = commands.script("loop")
    pid = commands.worker_pid()
    assert process.stdout is not None
    process.stdout.close()
    commands_ended = process.wait(timeout=30)
    assert commands_ended != 0 and not process_is_alive(pid)
    assert process.stderr is not None and "Traceback" not in process.stderr.read()


def test_a_detached_run_outlives_the_command_and_its_session(commands: Commands) -> None:
    done = ended(commands.script("loop", "--detach"))
    assert done.returncode == 0 and "trainer watch runs/scripted" in done.stdout and "trainer stop" in done.stdout
    pid = commands.worker_pid()
    assert os.getsid(pid) == pid
    steps = len(commands.events())
    eventually(lambda: len(commands.events()) > steps)
    stopped = commands.finish("stop")
    assert stopped.returncode == 0 and "stopped" in stopped.stdout
    assert commands.events()[-1]["status"] == "stopped"
    again = commands.finish("stop")
    assert again.returncode == 2 and "not running" in again.stderr


def test_an_abort_ends_a_worker_that_does_not_listen(commands: Commands) -> None:
    ended(commands.script("stuck", "--detach"))
    pid = commands.worker_pid()
    done = commands.finish("stop", "scripted", "--abort")
    assert done.returncode == 0 and not process_is_alive(pid)
    assert commands.events()[-1]["reason"] == "aborted by request"


def test_watching_follows_a_run_to_its_end_and_changes_nothing(commands: Commands) -> None:
    ended(commands.script("loop", "--detach"))
    commands.worker_pid()
    watching = commands.start("watch", "--json")
    assert watching.stdout is not None
    assert '"kind":"run"' in watching.stdout.readline()
    commands.finish("stop", "--no-wait")
    done = ended(watching)
    assert done.returncode == 0 and '"kind":"end"' in done.stdout
    plain = commands.finish("watch", "scripted", "--plain")
    assert plain.returncode == 0 and "end=stopped" in plain.stdout


def test_a_parent_that_died_before_the_worker_could_ask_leaves_no_worker(commands: Commands) -> None:
    program = "from trainer.cli.watcher import die_with_parent\ndie_with_parent(1 << 22)\nprint('alive')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=commands.environment)
    assert (done.returncode, done.stdout) == (143, "")
