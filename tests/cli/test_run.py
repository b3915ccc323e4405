"""`trainer run` from its start to its exit code, and what it leaves in the run directory."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Commands, ended


def test_a_run_without_a_terminal_prints_key_value_lines_and_exits_with_0(commands: Commands) -> None:
    done = commands.finish("run", "config.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [dict(part.split("=", 1) for part in shlex.split(line)) for line in done.stdout.splitlines()]
    assert (lines[0]["run"], lines[0]["task"].rpartition(":")[2]) == ("scripted", "Scripted")
    assert lines[-1]["end"] == "done" and lines[-1]["test/accuracy"] == "0.5"
    assert any("train/loss" in line for line in lines)


def test_a_finished_run_leaves_the_files_of_the_contract(commands: Commands) -> None:
    commands.finish("run", "config.yaml", "seed=7")
    run = commands.folder / "runs" / "scripted"
    environment = json.loads((run / "environment-1.json").read_text())
    assert environment["command"][-3:] == ["run", "config.yaml", "seed=7"]
    assert environment["directory"] == str(commands.folder) and environment["packages"]["numpy"]
    assert "seed: 7" in (run / "config-1.yaml").read_text()
    assert not (run / "run.lock").exists()
    events = commands.events()
    assert events[-1]["kind"] == "end" and events[-1]["status"] == "done"
    assert all(
        earlier["since_start"] <= later["since_start"] for earlier, later in zip(events, events[2:], strict=False)
    )


def test_json_prints_the_events_themselves(commands: Commands) -> None:
    done = commands.finish("run", "config.yaml", "--json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == commands.events()


def test_names_and_directories_can_be_chosen(commands: Commands) -> None:
    commands.finish("run", "config.yaml", "--name", "first")
    commands.finish("run", "config.yaml", "--name", "first")
    commands.finish("run", "config.yaml", "--run-dir", "elsewhere/here")
    assert {path.name for path in (commands.folder / "runs").iterdir()} == {"first", "first-2"}
    assert commands.events("elsewhere/here")[-1]["status"] == "done"
    refused = commands.finish("run", "config.yaml", "--run-dir", "elsewhere/here")
    assert refused.returncode == 2 and "not empty" in refused.stderr


def test_the_users_mistake_is_said_without_a_traceback_and_exits_with_2(commands: Commands) -> None:
    done = ended(commands.script("mistake"))
    assert done.returncode == 2
    assert done.stderr == "error: train.json: the pictures are upside down\n  Turn them.\n"
    assert not (commands.folder / "runs/scripted").exists(), "it had made no step"


def test_debug_adds_the_traceback_to_the_users_mistake(commands: Commands) -> None:
    done = ended(commands.script("mistake", "--debug"))
    assert done.returncode == 2
    assert "upside down" in done.stderr and "Traceback" in done.stderr and "def mistake" not in done.stdout


def test_a_failure_leaves_its_traceback_in_the_run_directory_and_exits_with_1(commands: Commands) -> None:
    done = ended(commands.script("failure"))
    assert done.returncode == 1
    assert "ZeroDivisionError: one by nought" in done.stderr and "Traceback" not in done.stderr
    end = commands.events()[-1]
    assert (end["kind"], end["status"], end["exit_code"]) == ("end", "failed", 1)
    assert "in failure" in (commands.folder / "runs/scripted" / end["traceback"]).read_text()


def test_a_worker_that_vanishes_is_reported_with_the_end_of_its_log(commands: Commands) -> None:
    done = ended(commands.script("vanish"))
    assert done.returncode == 1 and "ended with exit code 7" in done.stderr and "a last line in the log" in done.stderr
    assert commands.events()[-1]["status"] == "failed"


def test_in_process_trains_in_the_command_itself(commands: Commands) -> None:
    process = commands.script("finish", "--in-process")
    done = ended(process)
    assert done.returncode == 0 and "end=done" in done.stdout
    assert commands.events()[0]["pid"] == process.pid


def test_files_of_the_users_own_with_our_names_do_no_harm(commands: Commands) -> None:
    for name in ("trainer", "numpy", "json", "yaml", "pydantic", "threading", "textual"):
        (commands.folder / f"{name}.py").write_text(f"raise SystemExit('the wrong {name} was imported')\n")
    commands.environment["PYTHONPATH"] += os.pathsep  # an empty entry means the working directory
    done = commands.finish(
        "run", "config.yaml", prefix=("env", f"PYTHONPATH={commands.environment['PYTHONPATH'][:-1]}")
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_resumed_run_goes_on_from_its_checkpoint_in_the_same_directory(commands: Commands) -> None:
    first = commands.script("loop")
    commands.worker_pid()
    first.terminate()
    assert ended(first).returncode == 143
    checkpoint = next(event for event in commands.events() if event["kind"] == "checkpoint")
    done = commands.finish("run", "--resume", "scripted", "options.script=finish", "seed=3", "--force")
    assert (done.returncode, done.stderr) == (0, "")
    events = [event for event in commands.events() if event["attempt"] == 2]
    resumed = next(event for event in events if event["kind"] == "resumed")
    assert resumed["from_step"] == checkpoint["step"]
    assert next(event for event in events if event["kind"] == "metric")["step"] == checkpoint["step"] + 1
    assert "seed: 3" in (commands.folder / "runs/scripted/config-2.yaml").read_text()
    assert "resumed_from" in done.stdout and "train/loss=1 " not in done.stdout


def test_a_run_that_ended_before_its_first_checkpoint_begins_again(commands: Commands) -> None:
    ended(commands.script("failure"))
    done = commands.finish("run", "--resume", "scripted", "options.script=finish", "--force")
    assert done.returncode == 0
    assert [event["from_step"] for event in commands.events() if event["kind"] == "resumed"] == [0]


def test_auto_starts_a_run_goes_on_with_it_and_leaves_one_that_is_trained_alone(commands: Commands) -> None:
    words = ("run", "config.yaml", "--resume", "auto", "--name", "night")
    first = commands.start(*words, "options.script=loop")
    commands.worker_pid("runs/night")
    refused = commands.finish(*words)
    assert refused.returncode == 2 and "another process is training this run" in refused.stderr
    first.terminate()
    assert ended(first).returncode == 143
    saved = next(event for event in commands.events("runs/night") if event["kind"] == "checkpoint")
    again = commands.finish(*words, "checkpoint.keep_last=3", "--force")
    assert (again.returncode, again.stderr) == (0, "")
    resumed = [event["from_step"] for event in commands.events("runs/night") if event["kind"] == "resumed"]
    assert resumed == [saved["step"]]
    assert [path.name for path in (commands.folder / "runs").iterdir()] == ["night"]
    assert "keep_last: 3" in (commands.folder / "runs/night/config-2.yaml").read_text()


def test_values_that_the_saved_state_was_not_made_for_need_force(commands: Commands) -> None:
    commands.finish("run", "config.yaml")
    words = ("run", "--resume", "scripted", "train.epochs=2")
    refused = commands.finish(*words, "optimizer.learning_rate=0.5", "data.batch_size=8", "seed=4")
    assert refused.returncode == 2
    for said in (
        "optimizer.learning_rate: ",
        ", now 0.5: its state",
        "data.batch_size: 64, now 8: the number of steps",
        "seed: 0,",
    ):
        assert said in refused.stderr
    assert "train.epochs" not in refused.stderr and "--force" in refused.stderr
    assert not (commands.folder / "runs/scripted/config-2.yaml").exists()
    again = commands.finish("run", "config.yaml", "seed=4", "--resume", "auto")
    assert again.returncode == 2 and "seed: 0, now 4" in again.stderr
    assert commands.finish(*words, "validate.every_steps=5", "checkpoint.every_steps=5", "name=x").returncode == 0
    assert commands.finish(*words, "seed=4", "--force").returncode == 0
    assert "--force needs --resume" in commands.finish("run", "config.yaml", "--force").stderr


def test_auto_takes_up_a_start_that_was_killed_before_it_had_a_config(commands: Commands) -> None:
    for name in ("control", "checkpoints"):
        (commands.folder / "here" / name).mkdir(parents=True)
    (commands.folder / "here/.config-1.yaml.77").write_text("task: ")
    done = commands.finish("run", "config.yaml", "--resume", "auto", "--run-dir", "here")
    assert (done.returncode, done.stderr) == (0, "")
    assert not [event for event in commands.events("here") if event["kind"] == "resumed"]
    assert not (commands.folder / "here/.config-1.yaml.77").exists()
    (commands.folder / "there").mkdir()
    (commands.folder / "there/thesis.tex").write_text("")
    refused = commands.finish("run", "config.yaml", "--resume", "auto", "--run-dir", "there")
    assert refused.returncode == 2 and "thesis.tex" in refused.stderr


def test_resuming_deletes_files_that_a_killed_attempt_was_writing(commands: Commands) -> None:
    commands.finish("run", "config.yaml")
    run = commands.folder / "runs" / "scripted"
    for name in (".environment-1.json.4321", ".config-1.yaml.4321"):
        (run / name).write_text("{")
    (run / ".mine").write_text("kept")
    assert commands.finish("run", "--resume", "scripted", "--force").returncode == 0
    assert [path.name for path in run.iterdir() if path.name.startswith(".")] == [".mine"]


def test_a_run_that_is_being_trained_is_not_resumed(commands: Commands) -> None:
    first = commands.script("loop")
    pid = commands.worker_pid()
    done = commands.finish("run", "--resume", "scripted")
    assert done.returncode == 2 and f"pid {pid}" in done.stderr
    assert not (commands.folder / "runs/scripted/config-2.yaml").exists()
    first.terminate()
    assert ended(first).returncode == 143


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "no config given"),
        (["run", "missing.yaml"], "missing.yaml: no such file"),
        (["run", "digitz"], "did you mean 'digits'?"),
        (["run", "config.yaml", "seed.x=1"], "<cli> seed"),
        (["run", "config.yaml", "other.yaml"], "more than one config"),
        (["run", "config.yaml", "trian.epochs=2"], "did you mean 'train'?"),
        (["run", "binary.yaml"], "not UTF-8"),
        (["run", "folder.yaml"], "folder.yaml"),
        (["run", "config.yaml", "--name", "a/b"], "invalid name"),
        (["run", "config.yaml", "--run-dir", "config.yaml/x"], "can't write: not a directory"),
        (["run", "--resume", "nowhere"], "no such run: nowhere"),
        (["run", "config.yaml", "--resume", "nowhere"], "keeps its config"),
        (["run", "--resume", "auto"], "no config given"),
        (["run", "wrong_class.yaml"], "no task named Missing"),
    ],
)
def test_bad_input_is_one_clear_error_and_exit_2(commands: Commands, words: list[str], said: str) -> None:
    (commands.folder / "binary.yaml").write_bytes(b"task: \xff\xfe\n")
    (commands.folder / "folder.yaml").mkdir()
    (commands.folder / "wrong_class.yaml").write_text(
        (commands.folder / "config.yaml").read_text().replace(":Scripted", ":Missing")
    )
    done = commands.finish(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/sys/kernel").is_dir(), reason="root may write anywhere here")
def test_a_read_only_run_directory_is_said(commands: Commands) -> None:
    folder = Path("/sys/kernel") if os.geteuid() == 0 else commands.folder / "locked"
    if os.geteuid() != 0:
        folder.mkdir(mode=0o500)
    done = commands.finish("run", "config.yaml", "--run-dir", str(folder / "run"))
    assert done.returncode == 2
    assert "can't write: " in done.stderr and "Traceback" not in done.stderr


def test_a_disk_that_fills_up_ends_the_run_with_the_reason(commands: Commands) -> None:
    limited = ("sh", "-c", 'ulimit -f 100; exec "$@"', "sh")
    done = ended(commands.script("fill", prefix=limited))
    assert done.returncode in (1, 2)
    assert done.stderr.count("error: ") == 1 and "file too large" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_to_a_full_disk_is_said_and_leaves_no_worker(commands: Commands) -> None:
    with open("/dev/full", "w") as full:
        done = ended(commands.script("loop", stdout=full))
    assert done.returncode == 2 and "standard output: can't write: no space left" in done.stderr
    end = commands.events()[-1]
    assert (end["kind"], end["status"]) == ("end", "interrupted")
