"""The dashboard in a real pseudo-terminal, and what it costs to start."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import synthetic_run
from recorded_terminal import Screen

from trainer.rundir import RunPaths

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
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


@contextmanager
def terminal(
    run: Path, *, controlling: bool = False, **environment: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The dashboard in a terminal of 100x30; a `controlling` one sends SIGHUP when it is closed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    variables |= {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment}
    process = subprocess.Popen(
        [sys.executable, "-c", WATCH, str(run)], stdin=theirs, stdout=theirs, stderr=theirs, env=variables,
        start_new_session=controlling,
        preexec_fn=(lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)) if controlling else None,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        with suppress(OSError):  # some tests close it themselves
            os.close(ours)


def read_until(descriptor: int, *texts: bytes) -> bytes:
    """What the terminal got until all of `texts` were there; fails when the command ends before, or says no more."""
    output, screen = b"", Screen(100, 30)
    while not all(text in output or text.decode() in screen.text for text in texts):
        assert select.select([descriptor], [], [], PATIENCE_SECONDS)[0], f"no {texts} in {output!r}"
        data = os.read(descriptor, 1 << 16)
        screen.feed(data)
        output += data
    return output


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_it_draws_before_it_asks_the_terminal_anything(finished: RunPaths, locale: str) -> None:
    with terminal(finished.root, LC_ALL=locale) as (process, descriptor):
        output = read_until(descriptor, b"FINISHED", b"phases", b"\x1b[?2026$p", b"\x1b[?1002h", b"step 1000")
        question = min(output.index(b"\x1b[?2026$p"), output.index(b"\x1b[?1000h"))
        for text in (b"digits-7", b"phases"):  # how far the log was read by then depends on the machine
            assert output.index(text) < question
        os.write(descriptor, b"q")
        rest = read_until(descriptor, b"finished")
        for mode in (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?1002l", b"\x1b[?1006l"):
            assert mode in rest, "the terminal is given back as it was"
        assert process.wait(20) == 0
    if locale == "C":
        assert output.isascii()


def test_no_color_leaves_no_colour(finished: RunPaths) -> None:
    with terminal(finished.root, NO_COLOR="1") as (_, descriptor):
        output = read_until(descriptor, b"FINISHED", b"step 1000")
    assert b"\x1b[38" not in output and b"\x1b[36" not in output and b"FINISHED" in output


def test_sixteen_colours_are_enough(finished: RunPaths) -> None:
    with terminal(finished.root, TERM="xterm", COLORTERM="") as (_, descriptor):
        output = read_until(descriptor, b"FINISHED", b"step 1000")
    assert b"\x1b[38;5" not in output and b"\x1b[38;2" not in output


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


def test_preparing_imports_a_part_of_textual_and_stops_when_that_is_enough() -> None:
    assert "textual" not in loaded_by("from trainer.tui import prepare_dashboard; prepare_dashboard(lambda: True)")
    assert "textual" in loaded_by("from trainer.tui import prepare_dashboard; prepare_dashboard(lambda: False)")


def test_what_is_shown_of_a_run_that_is_not_there_yet_waits_for_nothing_heavy() -> None:
    loaded = loaded_by("import trainer.cli.launch, trainer.tui.first_frame")
    assert not loaded & {"asyncio", "rich.console", "textual", "numpy", "pydantic", "yaml"}


def test_importing_the_room_does_not_import_textual() -> None:
    assert "textual" not in loaded_by("import trainer.tui")


@pytest.mark.parametrize("has_controlling_terminal", [True, False])
def test_a_dashboard_ends_with_its_terminal(finished: RunPaths, has_controlling_terminal: bool) -> None:
    with terminal(finished.root, controlling=has_controlling_terminal) as (process, descriptor):
        read_until(descriptor, b"FINISHED", b"step 1000")
        os.close(descriptor)
        assert process.wait(20) == 0
    assert (finished.root / "left").read_text() == "hung_up"


def test_a_terminated_dashboard_gives_the_terminal_back(finished: RunPaths) -> None:
    with terminal(finished.root) as (process, descriptor):
        read_until(descriptor, b"FINISHED", b"step 1000")
        process.terminate()
        assert b"\x1b[?1049l" in read_until(descriptor, b"terminated")
        assert process.wait(20) == 0


@pytest.mark.parametrize("takes_mouse", [True, False])
def test_a_mouse_in_a_terminal(finished: RunPaths, takes_mouse: bool) -> None:
    with terminal(finished.root, WATCH_OPTIONS="" if takes_mouse else "has_mouse=False") as (process, descriptor):
        output = read_until(descriptor, b"FINISHED", b"step 1000", b"\x1b[?2026$p")
        if takes_mouse:
            os.write(descriptor, b"\x1b[<0;40;30M\x1b[<0;40;30m")  # on "4 samples", in the last line
            read_until(descriptor, b"no samples yet")
            os.write(descriptor, b"2")
            read_until(descriptor, b"\x1b[?1003h", b"3 metrics")
        os.write(descriptor, b"q")
        rest = read_until(descriptor, b"finished")
        assert process.wait(20) == 0
    modes = [mode for mode in (b"?1000", b"?1002", b"?1003", b"?1006") if b"\x1b[" + mode in output + rest]
    assert bool(modes) == takes_mouse


@pytest.mark.parametrize(("form", "begins"), [("kitty", b"\x1b_Ga=T"), ("sixel", b"\x1bP0;1q")])
def test_pictures_in_pixels_come_after_the_first_frame_and_none_is_left(
    tmp_path: Path, form: str, begins: bytes
) -> None:
    run = synthetic_run.write_run(tmp_path / "digits-7", has_shown=True)
    with terminal(run.root, WATCH_OPTIONS=f"pictures='{form}'") as (process, descriptor):
        first = read_until(descriptor, b"FINISHED", b"step 1000", b"\x1b[?2026$p")
        assert begins not in first
        os.write(descriptor, b"4")
        read_until(descriptor, begins, b"to be or not")
        os.write(descriptor, b"q")
        rest = read_until(descriptor, b"finished")
        assert process.wait(20) == 0
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
