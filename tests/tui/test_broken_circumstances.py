"""What goes wrong around a dashboard: its terminal, its run, itself. The terminal is given back, training goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import synthetic_run
from conftest import hold_lock
from pseudo_terminal import ROOT, Terminal, changed_modes

from trainer.rundir import RunPaths, process_is_alive, read_lock

TRAINER = [sys.executable, "-P", "-m", "trainer.cli"]
FAILING = """
import sys
from trainer.tui import app, watch
from pathlib import Path
class Broken(app.Dashboard):
    def draw(self):
        raise ZeroDivisionError("drawn by nought")
app.Dashboard = Broken
print("left:", watch(Path(sys.argv[1])).action)
"""


def watching(run: Path, size: tuple[int, int] = (100, 30), **environment: str) -> Terminal:
    """`trainer watch` on a run, once its first frames are there."""
    terminal = Terminal([*TRAINER, "watch", str(run)], run.parent, size, **environment)
    terminal.until("phases")
    return terminal


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[RunPaths]:
    """The directory of a run of the scripted task, whose worker is ended with the test."""
    shutil.copytree(ROOT / "tests" / "cli" / "scripted", tmp_path, dirs_exist_ok=True)
    paths = RunPaths(tmp_path / "runs" / "scripted")
    yield paths
    lock = read_lock(paths) if paths.root.exists() else None
    if lock is not None and lock.alive:
        os.kill(lock.pid, signal.SIGKILL)


def training(paths: RunPaths, script: str = "loop", **environment: str) -> Terminal:
    """`trainer run` on a terminal, once it makes steps."""
    words = [*TRAINER, "run", "config.yaml", f"options.script={script}"]
    terminal = Terminal(words, paths.root.parents[1], (120, 36), **environment)
    terminal.until("RUNNING", "phases", "step")
    return terminal


@pytest.mark.parametrize("how", ["quit", "sigterm", "interrupt and quit"])
def test_the_terminal_is_given_back(finished: RunPaths, how: str) -> None:
    with watching(finished.root) as terminal:
        terminal.until("\x1b[?2026$p", "\x1b[?2004h", "DONE")
        assert changed_modes(terminal.output) and terminal.attributes() != terminal.attributes_before
        if how == "sigterm":
            terminal.process.terminate()
        else:
            terminal.press("q" if how == "quit" else b"\x03")
        assert terminal.wait() == (143 if how == "sigterm" else 0)
        assert terminal.is_given_back(), changed_modes(terminal.output)


def test_a_fault_in_the_dashboard_gives_the_terminal_back_and_says_so(finished: RunPaths) -> None:
    with Terminal([sys.executable, "-c", FAILING, str(finished.root)], finished.root) as terminal:
        assert terminal.wait() == 0
        assert terminal.is_given_back(), changed_modes(terminal.output)
        said = terminal.text(terminal.output.rindex(b"\x1b[?1049l"))
    assert "drawn by nought" in said and "the run is not affected" in said and "left: failed" in said


@pytest.mark.full
def test_who_started_a_worker_that_is_killed_tells_why_at_once(trained: RunPaths) -> None:
    with training(trained, "chatter") as terminal:
        lock = read_lock(trained)
        assert lock is not None
        terminal.until("a line of its log")
        before = len(terminal.output)
        os.kill(lock.pid, signal.SIGKILL)
        terminal.until("FAILED", "killed by SIGKILL", since=before)
        before = len(terminal.output)
        terminal.press("c")
        terminal.until("can't checkpoint: the run is over (failed)", since=before)
        terminal.press("q")
        assert terminal.wait() == 1 and terminal.is_given_back()
    assert json.loads(trained.events.read_text().splitlines()[-1])["status"] == "failed"


@pytest.mark.full
def test_who_watches_a_worker_that_is_killed_is_told_of_its_last_heartbeat(trained: RunPaths) -> None:
    with training(trained, "chatter") as owner:
        owner.press("q")
        assert owner.wait() == 0
    lock = read_lock(trained)
    assert lock is not None
    with watching(trained.root, (120, 36)) as terminal:
        terminal.until("RUNNING", "a line of its log")
        terminal.press("c")
        terminal.until("checkpoint: done")
        before = len(terminal.output)
        os.kill(lock.pid, signal.SIGKILL)
        gone = f"the training process {lock.pid} is gone"
        terminal.until("LOST", "last heartbeat ", " ago", f"{gone} without an end; last heartbeat at 2", since=before)
        for key, refused in (("c", "can't checkpoint"), ("e", "can't evaluate"), ("p", "can't pause")):
            terminal.press(key)
            terminal.until(f"{refused}: {gone}")
        terminal.press("x")
        terminal.until(f"{gone}; q leaves")
        terminal.press("q")
        assert terminal.wait() == 0 and terminal.is_given_back()


@pytest.mark.full
def test_a_closed_terminal_leaves_the_worker_training(trained: RunPaths) -> None:
    with training(trained) as terminal:
        terminal.close()
        assert terminal.process.wait(20) == 143
    lock, size = read_lock(trained), trained.events.stat().st_size
    assert lock is not None and process_is_alive(lock.pid)
    while trained.events.stat().st_size == size:
        assert process_is_alive(lock.pid)


@pytest.mark.full
def test_ctrl_z_gives_the_shell_its_terminal_and_fg_comes_back(trained: RunPaths) -> None:
    shell = Terminal(["bash", "--norc", "--noediting", "-i"], trained.root.parents[1], (120, 36), PS1="ready> ")
    with shell:
        shell.until("ready> ")
        command = f"{' '.join(TRAINER)} run config.yaml options.script=loop"
        shell.press(f"{command}\n")
        shell.until("RUNNING", "phases", "step")
        before = len(shell.output)
        shell.press(b"\x1a")
        shell.until("Stopped", "ready> ", since=before)
        assert not changed_modes(shell.output.rpartition(b"Stopped")[0])
        events = trained.events.stat().st_size
        shell.press("stty -a | tr ' ' '\\n' | grep -x -e echo -e icanon -e isig | sort | tr '\\n' ' '\n")
        shell.until("echo icanon isig", since=before)
        before = len(shell.output)
        shell.press("fg\n")
        shell.until("\x1b[?1049h", "phases", "RUNNING", since=before)
        assert trained.events.stat().st_size > events, "training went on meanwhile"
        before = len(shell.output)
        shell.press("q")
        shell.until("continues training", "ready> ", since=before)
        assert not changed_modes(shell.output.rpartition(b"ready> ")[0])


@pytest.mark.full
def test_a_terminal_of_any_size_that_changes_all_the_time(finished: RunPaths) -> None:
    sizes = [(1, 1), (500, 200), (2, 300), (400, 2), (1, 60), (79, 23), (0, 0), (81, 19), (3, 3), (160, 50)]
    with watching(finished.root) as terminal:
        for key in "1234567":
            terminal.press(key)
            for size in sizes * 3:
                terminal.resize(*size)
                terminal.read()
        terminal.press("1")
        terminal.resize(120, 36)
        before = len(terminal.output)
        terminal.press("?")
        terminal.until("List all keys", since=before)
        terminal.resize(100, 30)
        terminal.press("?q")
        assert terminal.wait() == 0 and terminal.is_given_back()


@pytest.mark.full
def test_a_log_that_is_cut_in_the_middle_of_a_line(finished: RunPaths) -> None:
    whole = finished.events.read_bytes()
    end = whole.rindex(b"\n", 0, -1) + 1
    finished.events.write_bytes(whole[: end + 20])
    hold_lock(finished, os.getpid(), finished.events.stat().st_mtime)
    with watching(finished.root) as terminal:
        terminal.until("RUNNING", "step 960")
        before = len(terminal.output)
        with finished.events.open("ab") as file:
            file.write(whole[end + 20 :])
        terminal.until("DONE", since=before)
        before = len(terminal.output)
        finished.events.write_bytes(whole[: end + 20])  # a disk that lost its end, below a dashboard that has read it
        terminal.press("2")
        terminal.until("metrics", since=before)
        terminal.press("q")
        assert terminal.wait() == 0 and terminal.is_given_back()


@pytest.mark.full
def test_a_flood_of_records_leaves_the_dashboard_answering(tmp_path: Path) -> None:
    paths = synthetic_run.make_folder(tmp_path / "flood")
    flood = subprocess.Popen([sys.executable, str(Path(synthetic_run.__file__)), str(paths.root), "--flood", "10000"])
    try:
        with watching(paths.root) as terminal:
            for key, shown in (("2", "smoothing"), ("7", "learning_rate"), ("1", "phases"), ("?", "List all keys")):
                before = len(terminal.output)
                terminal.press(key)
                terminal.until(shown, since=before)
            terminal.press("?q")
            assert terminal.wait() == 0
    finally:
        flood.kill()
        flood.wait()


@pytest.mark.parametrize("words", [("watch", "runs/scripted"), ("run", "config.yaml")])
@pytest.mark.parametrize("term", ["dumb", "pipe"])
def test_without_a_terminal_that_can_draw_there_are_plain_lines(
    trained: RunPaths, words: tuple[str, ...], term: str
) -> None:
    folder = trained.root.parents[1]
    if words[0] == "watch":
        synthetic_run.write_run(trained.root)
    if term == "dumb":
        with Terminal([*TRAINER, *words], folder, TERM="dumb") as terminal:
            assert terminal.wait() == 0
            output = terminal.output
    else:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
        output = subprocess.run([*TRAINER, *words], cwd=folder, env=environment, capture_output=True, check=True).stdout
    assert b"\x1b" not in output and b"end=done" in output
