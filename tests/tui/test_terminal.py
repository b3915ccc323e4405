"""The dashboard in a real pseudo-terminal, and what it costs to start."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import synthetic_run
from pseudo_terminal import PATIENCE, Terminal

from trainer.rundir import RunPaths

ROOT = Path(__file__).parents[2]
WATCH = """
import os
import sys
from pathlib import Path
from trainer.tui import watch
action = watch(Path(sys.argv[1]), **eval(f"dict({os.environ.get('WATCH_OPTIONS', '')})")).action
Path(sys.argv[1], "left").write_text(action)
if action != "hung_up":
    print(action)
"""


def watching(run: Path, **options: Any) -> Terminal:
    """The dashboard in a terminal of 100x30."""
    return Terminal([sys.executable, "-c", WATCH, str(run)], ROOT, **options)


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_it_draws_before_it_asks_the_terminal_anything(finished: RunPaths, locale: str) -> None:
    with watching(finished.root, LC_ALL=locale) as terminal:
        terminal.until("DONE", "phases", "\x1b[?2026$p", "\x1b[?1002h", "step 1000")
        output = terminal.output
        question = min(output.index(b"\x1b[?2026$p"), output.index(b"\x1b[?1000h"))
        for text in (b"digits-7", b"phases"):  # how far the log was read by then depends on the machine
            assert output.index(text) < question
        terminal.press("q")
        assert terminal.wait() == 0 and b"finished" in terminal.output
        assert terminal.is_given_back()
    if locale == "C":
        assert terminal.output.isascii()


def test_no_color_leaves_no_colour(finished: RunPaths) -> None:
    with watching(finished.root, NO_COLOR="1") as terminal:
        terminal.until("DONE", "step 1000")
    assert b"\x1b[38" not in terminal.output and b"\x1b[36" not in terminal.output


def test_sixteen_colours_are_enough(finished: RunPaths) -> None:
    with watching(finished.root, TERM="xterm", COLORTERM="") as terminal:
        terminal.until("DONE", "step 1000")
    assert b"\x1b[38;5" not in terminal.output and b"\x1b[38;2" not in terminal.output


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_nothing_heavy_is_imported_for_the_first_frame() -> None:
    loaded = loaded_by("import trainer.tui.app")
    heavy = {"numpy", "pydantic", "yaml", "llvmlite", "trainer.engine", "trainer.configs", "trainer.learner"}
    assert not loaded & heavy and "trainer.rundir" in loaded


def test_the_parts_of_the_app_leave_little_to_import_for_its_first_frame() -> None:
    loaded = loaded_by("from trainer.tui.watch import PARTS_OF_THE_APP as parts; [*map(__import__, parts)]")
    assert {"trainer.tui.app", "trainer.tui.screens", "textual.app", "textual.screen"} <= loaded
    assert "numpy" not in loaded


def test_preparing_imports_the_app_and_stops_when_that_is_enough() -> None:
    assert "textual" not in loaded_by("from trainer.tui import prepare_dashboard; prepare_dashboard(lambda: True)")
    loaded = loaded_by("from trainer.tui import prepare_dashboard; prepare_dashboard(lambda: False)")
    assert "trainer.tui.app" in loaded and "numpy" not in loaded


def test_what_is_shown_of_a_run_that_is_not_there_yet_waits_for_nothing_heavy() -> None:
    loaded = loaded_by("import trainer.cli.launch, trainer.tui.first_frame")
    assert not loaded & {"asyncio", "rich.console", "textual", "numpy", "pydantic", "yaml"}


def test_importing_the_room_does_not_import_textual() -> None:
    assert "textual" not in loaded_by("import trainer.tui")


@pytest.mark.parametrize("is_controlling", [True, False])
def test_a_dashboard_ends_with_its_terminal(finished: RunPaths, is_controlling: bool) -> None:
    with watching(finished.root, is_controlling=is_controlling) as terminal:
        terminal.until("DONE", "step 1000")
        terminal.close()
        assert terminal.process.wait(PATIENCE) == 0
    assert (finished.root / "left").read_text() == "hung_up"


def test_a_terminated_dashboard_gives_the_terminal_back(finished: RunPaths) -> None:
    with watching(finished.root) as terminal:
        terminal.until("DONE", "step 1000")
        terminal.process.terminate()
        assert terminal.wait() == 0
        assert b"terminated" in terminal.output and terminal.is_given_back()


@pytest.mark.parametrize("takes_mouse", [True, False])
def test_a_mouse_in_a_terminal(finished: RunPaths, takes_mouse: bool) -> None:
    with watching(finished.root, WATCH_OPTIONS="" if takes_mouse else "has_mouse=False") as terminal:
        before = terminal.until("DONE", "step 1000", "\x1b[?2026$p")
        if takes_mouse:
            terminal.press("\x1b[<0;30;30M\x1b[<0;30;30m")  # on "3 samples", in the last line
            before = terminal.until("no samples yet", since=before)
            terminal.press("2")
            terminal.until("\x1b[?1003h", "3 metrics", since=before)
        terminal.press("q")
        assert terminal.wait() == 0
    modes = [mode for mode in (b"?1000", b"?1002", b"?1003", b"?1006") if b"\x1b[" + mode in terminal.output]
    assert bool(modes) == takes_mouse


@pytest.mark.parametrize(("form", "begins"), [("kitty", b"\x1b_Ga=T"), ("sixel", b"\x1bP0;1q")])
def test_pictures_in_pixels_come_after_the_first_frame_and_none_is_left(
    tmp_path: Path, form: str, begins: bytes
) -> None:
    run = synthetic_run.write_run(tmp_path / "digits-7", has_shown=True)
    with watching(run.root, WATCH_OPTIONS=f"pictures='{form}'") as terminal:
        before = terminal.until("DONE", "step 1000", "\x1b[?2026$p")
        assert begins not in terminal.output
        terminal.press("3")
        before = terminal.until(begins.decode(), "to be or not", since=before)
        terminal.press("q")
        assert terminal.wait() == 0
        rest = terminal.output[before:]
    if form == "kitty":
        assert rest.index(b"\x1b_Ga=d,d=A") < rest.index(b"\x1b[?1049l")


def test_whether_input_ends_may_be_asked_in_two_threads_at_once() -> None:
    """Of the loop that reads keys and of the thread that ends it, one was refused now and then, and q did nothing."""
    from trainer.tui.driver import _EndOfInput

    master, slave = pty.openpty()
    end = _EndOfInput(slave)
    answers: list[bool] = []

    def ask() -> None:
        answers.append(any(end.is_set() for _ in range(5_000)))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [False] * 3, "a thread that was refused gives no answer"
    os.close(master)
    assert end.is_set(), "its terminal is gone"
    os.close(slave)
