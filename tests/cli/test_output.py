"""What a command prints: nothing that a terminal obeys, and an error where its output goes nowhere."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Commands
from tests.tui.synthetic_run import write_run
from trainer import TrainerError
from trainer.cli.output import Output, escape_controls
from trainer.rundir import RunLock, RunPaths

needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
HOSTILE = "a\x1b]0;title\x07b\x1b[31mc\x9b2Jd\re\x7ff\u202eg\ud800h"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"), ("a\tb\nc", "a\tb\nc"),
        ("ü 漢 e\u0301 · █", "ü 漢 e\u0301 · █"), ("\x1b[31m", "\\u001b[31m"),
        ("\r\x9b\x7f\x00", "\\u000d\\u009b\\u007f\\u0000"), ("\udcff\u202e", "\\udcff\\u202e"),
    ],
)  # fmt: skip
def test_what_is_no_visible_character_is_escaped(text: str, shown: str) -> None:
    assert escape_controls(text) == shown
    shown.encode()


def test_escapes_within_json_mean_the_characters() -> None:
    assert json.loads(escape_controls(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_WRONLY)


def test_a_stream_that_takes_nothing_is_an_error_and_standard_error_drops_it() -> None:
    with pytest.raises(TrainerError, match="standard output: can't write: no space left"):
        Output(Full(), "standard output").write("x")
    Output(Full(), None).write("x")


@needs_full
@pytest.mark.parametrize("words", [["check", "config.yaml"], ["list"], ["--help"], ["run", "--help"], ["--version"]])
def test_a_full_disk_below_the_output_is_one_error(commands: Commands, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = commands.finish(*words, stdout=full)
    assert done.returncode == 2
    assert (
        done.stderr.startswith("error: standard output: can't write: no space left") and "Traceback" not in done.stderr
    )


@needs_full
@pytest.mark.parametrize("form", ["--plain", "--json", "--in-process"])
def test_a_run_whose_output_is_full_ends_and_leaves_no_lock(commands: Commands, form: str) -> None:
    with open("/dev/full", "w") as full:
        done = commands.finish("run", "config.yaml", "options.script=loop", form, stdout=full)
    assert done.returncode == 2 and "standard output: can't write" in done.stderr
    assert commands.events()[-1]["kind"] == "end"
    assert not (commands.folder / "runs/scripted/run.lock").exists()


def test_a_lock_that_a_killed_worker_left_is_taken_away(tmp_path: Path) -> None:
    from trainer.cli.attempt import Attempt
    from trainer.cli.ending import settle

    paths = RunPaths(tmp_path)
    take = "import sys; from trainer.rundir import *; RunLock(RunPaths(sys.argv[1])).acquire()"
    subprocess.run([sys.executable, "-c", take, str(tmp_path)], check=True)
    assert paths.lock.exists()
    settle(Attempt(paths, 1, 0.0), -15, "")
    assert not paths.lock.exists()
    with RunLock(paths):
        settle(Attempt(paths, 1, 0.0), -15, "")
        assert paths.lock.exists()  # it is another's, who lives


@pytest.mark.parametrize("words", [["check", "config.yaml"], ["runs"], ["run", "config.yaml", "--plain"], ["watch"]])
def test_a_working_directory_that_is_gone_is_one_error(commands: Commands, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    leave = ("sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "sh")
    done = commands.finish(*words, prefix=leave)
    assert done.returncode == 2
    assert "error: the working directory does not exist" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "verb", [["runs", "list", "."], ["watch", "--plain", "hostile"], ["report", "hostile", "-o", "r.html"]]
)
def test_names_of_data_reach_no_terminal_and_no_page_as_they_are(
    commands: Commands, tmp_path: Path, verb: list[str]
) -> None:
    paths = write_run(tmp_path / "hostile")
    lines = paths.events.read_text().splitlines()
    for number, line in enumerate(lines):
        event = json.loads(line)
        for field, value in event.items():
            if isinstance(value, str) and field not in ("kind", "status", "state", "file", "level", "split"):
                event[field] = value + HOSTILE
            elif isinstance(value, dict) and field in ("values", "metrics"):
                event[field] = {name + HOSTILE: number for name, number in value.items()}
        lines[number] = json.dumps(event)
    paths.events.write_text("\n".join(lines) + "\n")
    done = commands.finish(*verb)
    page = (tmp_path / "r.html").read_text() if verb[0] == "report" else ""
    assert done.returncode == 0 and "Traceback" not in done.stderr
    shown = done.stdout + done.stderr + page
    assert not any(character in shown for character in "\x1b\x07\x9b\r\x7f\u202e")


def test_a_file_is_no_run_and_its_names_are_escaped(tmp_path: Path, commands: Commands) -> None:
    header = json.dumps({"layer\udcff\x1b[31m": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "s.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    shown = commands.finish("checkpoint", "inspect", "s.safetensors")
    assert shown.returncode == 0 and "layer\\udcff\\u001b[31m  float32  [2]" in shown.stdout
    refused = commands.finish("checkpoint", "verify", "s.safetensors")
    assert refused.returncode == 2 and "no checkpoint" in refused.stderr and "Traceback" not in refused.stderr
