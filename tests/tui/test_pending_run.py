"""What the terminal shows of a run that has been asked for and whose configuration is still being read."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pseudo_terminal import Terminal
from recorded_terminal import Screen

from trainer.rundir import EventWriter, PhaseEvent, RunPaths
from trainer.tui.ansi import place
from trainer.tui.feed import Feed
from trainer.tui.first_frame import FirstFrame
from trainer.tui.frame import frame_of
from trainer.tui.glyphs import UNICODE
from trainer.tui.overview import draw_overview
from trainer.tui.palette import RICH
from trainer.tui.pending_run import PendingRun

# Its options are read as slowly as the test wants, and its task has a mistake, so that no run trains on.
OPTIONS = """
from trainer.configs import Section
print("options \\x1b[2J as they come", flush=True)
with open("gate") as gate:
    gate.read()

class Options(Section):
    pass
"""
TASK = """
from trainer import TrainerError
raise TrainerError("no such luck")
"""
CONFIG = """\
task: ./task.py:Slow
data: {batch_size: 16}
optimizer: {name: sgd, learning_rate: 0.01}
train: {steps: 4}
"""
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Slow(Terminal):
    """`trainer run slow.yaml`, which reads its options until `go`."""

    def __init__(self, folder: Path, *overrides: str, after: str = "") -> None:
        (folder / "options.py").write_text(OPTIONS + after)
        (folder / "task.py").write_text(TASK)
        (folder / "slow.yaml").write_text(CONFIG)
        os.mkfifo(folder / "gate")
        self._gate = folder / "gate"
        super().__init__([sys.executable, "-P", "-m", "trainer.cli", "run", "slow.yaml", *overrides], folder)
        self.until("slow.yaml", "STARTING", "config", "as they come")

    def go(self) -> None:
        """Let the options be read, by a worker that lives."""
        is_open = False

        def passes() -> bool:
            nonlocal is_open
            with suppress(OSError):  # nobody reads it yet
                if not is_open:
                    os.close(os.open(self._gate, os.O_WRONLY | os.O_NONBLOCK))
                    is_open = True
            return is_open

        self.until_true(passes, "nobody reads the options")

    def ends(self) -> int:
        """The exit code of the command; nobody reads the gate any more."""
        code = self.wait()
        with pytest.raises(OSError):
            os.close(os.open(self._gate, os.O_WRONLY | os.O_NONBLOCK))
        return code


def test_a_mistake_that_is_found_late_is_said_on_the_terminal_as_it_was(tmp_path: Path) -> None:
    with Slow(tmp_path, "train.epoch=3") as terminal:
        terminal.go()
        assert terminal.ends() == 2
        assert terminal.output.count(ENTER) == terminal.output.count(LEAVE) == 1
        told = terminal.output.rpartition(LEAVE)[2]
        assert b"options" in told and b"did you mean 'epochs'?" in told
        shown = terminal.output.partition(LEAVE)[0]
        assert shown.count(b"\x1b[2J") == 1, "of a printed line what a terminal would act on is not passed on"
        assert terminal.is_given_back() and not (tmp_path / "runs").exists()


def test_the_traceback_of_a_mistake_stands_on_the_terminal_as_it_was(tmp_path: Path) -> None:
    with Slow(tmp_path, "train.epoch=3", "--debug") as terminal:
        terminal.go()
        assert terminal.ends() == 2
        told = terminal.output.rpartition(LEAVE)[2]
        assert told.count(b"in load") == 1 and b"did you mean 'epochs'?" in told


def test_it_becomes_the_dashboard_of_the_run_once_that_is_there(tmp_path: Path) -> None:
    with Slow(tmp_path) as terminal:
        terminal.go()
        terminal.until("FAILED", "no such luck")
        terminal.press("q")
        assert terminal.ends() == 2
        assert terminal.output.count(ENTER) == 1, "some terminals clear the screen when it is entered twice"
        told = terminal.output.rpartition(LEAVE)[2]
        assert b"as they come" in told and b"no such luck" in told
        assert terminal.is_given_back()


def test_ctrl_c_gives_up_a_run_that_is_not_there_yet(tmp_path: Path) -> None:
    with Slow(tmp_path) as terminal:
        terminal.press("\x03")
        assert terminal.ends() == 130
        assert terminal.is_given_back() and not (tmp_path / "runs").exists()


@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP"])
def test_a_command_that_is_ended_leaves_its_run_to_itself(tmp_path: Path, how: str) -> None:
    with Slow(tmp_path, "train.epoch=3") as terminal:
        terminal.process.send_signal(getattr(signal, how))
        assert terminal.wait() == 143
        assert (b"still starting;" in terminal.output.rpartition(LEAVE)[2]) == (how == "SIGTERM")
        assert terminal.is_given_back()
        terminal.go()


def test_the_last_words_of_a_worker_that_dies_early_are_kept(tmp_path: Path) -> None:
    with Slow(tmp_path, after="import os; os._exit(9)") as terminal:
        terminal.go()
        assert terminal.ends() == 1
        assert b"as they come" in terminal.output.rpartition(LEAVE)[2] and terminal.is_given_back()


@pytest.mark.parametrize("size", [(60, 24), (80, 24), (160, 50)])
def test_it_says_what_is_awaited_and_for_how_long(size: tuple[int, int]) -> None:
    now = [1000.0]
    run = PendingRun("night.yaml", lambda: now[0], age=1.0)
    now[0] = 1002.0
    screen = Screen(*size)
    frame = frame_of(run, glyphs=UNICODE, pane="phases", is_first=True)
    screen.feed(place(draw_overview(frame, *size), RICH, "256", on_empty=True).encode())
    assert "night.yaml" in screen.text and "STARTING" in screen.text
    assert next(line for line in screen.text.splitlines() if "● config" in line).split("config")[1].split()[0] == "3.0"


def test_its_phase_goes_on_until_the_run_has_a_record(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "runs" / "night")
    run.root.mkdir(parents=True)
    feed = Feed(run.root, lambda: 1002.0)
    FirstFrame(PendingRun("night.yaml", lambda: 1000.0, age=1.0), {}).follow(feed)
    feed.poll(1.0)
    assert [(phase.name, phase.is_active, phase.seconds(1002.0)) for phase in feed.view.phases.values()] == [
        ("config", True, 3.0)
    ]
    with EventWriter(run.events, attempt=1, process_start=999.0) as writer:
        writer.write(PhaseEvent("config", "finished"))
    feed.poll(1.0)
    assert not feed.view.phases["config"].is_active
