"""The first frame, which is drawn without Textual, and the terminal's way from one to the other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Clock, dashboard, screen_text, settle
from pseudo_terminal import Terminal
from recorded_terminal import Screen
from rich.color import ColorSystem
from rich.style import Style
from synthetic_run import write_long_run

from trainer.rundir import RunPaths
from trainer.tui.ansi import codes_of, place
from trainer.tui.overview import draw_overview
from trainer.tui.palette import RICH, SIXTEEN

# A dashboard that does something the moment that Textual is looked for.
WATCH = """
import os, select, signal, sys
from pathlib import Path

class Meanwhile:
    def find_spec(self, name, path=None, target=None):
        if name == "textual":
            sys.meta_path.remove(self)
            {meanwhile}

sys.meta_path.insert(0, Meanwhile())
from trainer.tui import feed, watch
feed.PREVIEW_BYTES = {preview_bytes}
print(watch(Path(sys.argv[1])).action)
"""

# A dashboard that gets a signal while its first frame is written: before it, or after it.
WHILE_WRITTEN = """
import os, signal, sys
from pathlib import Path
from trainer.tui import watch
from trainer.tui.first_frame import FirstFrame

write = FirstFrame._write

def interrupted(self, text):
    FirstFrame._write = write
    if {is_after}:
        write(self, text)
    os.kill(os.getpid(), signal.SIGTERM)

FirstFrame._write = interrupted
print(watch(Path(sys.argv[1])).action)
"""


def watched(run: RunPaths, meanwhile: str, preview_bytes: int = 1 << 30) -> Terminal:
    script = WATCH.format(meanwhile=meanwhile, preview_bytes=preview_bytes)
    return Terminal([sys.executable, "-c", script, str(run.root)], Path.cwd(), (100, 30))


LARGER = [(97, 31), (119, 20), (160, 50), (203, 61)]


@pytest.mark.parametrize(
    "size", [(60, 24), (80, 24), (120, 19), (120, 40), *(pytest.param(size, marks=pytest.mark.full) for size in LARGER)]
)
async def test_it_is_what_the_app_draws_first(
    running: RunPaths, clock: Clock, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.tui.app.FIRST_FRAME_SECONDS", 3600.0)  # its timer would end what is looked at
    app = dashboard(running, clock)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        app.is_first = True
        app.draw()
        await pilot.pause()
        drawn = draw_overview(app.frame()._replace(pane="phases"), *size)
        shown = screen_text(app)
    for on_empty in (True, False):
        terminal = Screen(*size)
        if not on_empty:
            terminal.feed("\r\n".join(["#" * size[0]] * size[1]).encode())
        terminal.feed(place(drawn, RICH, "256", on_empty=on_empty).encode())
        assert terminal.text == shown


@pytest.mark.parametrize("system", [ColorSystem.STANDARD, ColorSystem.EIGHT_BIT, ColorSystem.TRUECOLOR])
def test_its_colours_are_those_that_rich_makes_of_the_palette(system: ColorSystem) -> None:
    name = {ColorSystem.STANDARD: "standard", ColorSystem.EIGHT_BIT: "256", ColorSystem.TRUECOLOR: "truecolor"}[system]
    Style.parse.cache_clear()  # type: ignore[attr-defined]  # a style remembers what it was rendered to, for one system
    for style in {*SIXTEEN.values(), *(RICH.values() if system != ColorSystem.STANDARD else ())}:
        codes = codes_of(style, name)  # type: ignore[arg-type]
        assert (f"\x1b[{codes}mx\x1b[0m" if codes else "x") == Style.parse(style).render("x", color_system=system)
    assert codes_of("bold reverse #3aa655", "none") == "1;7"


def test_what_is_typed_before_textual_is_there_is_heard_and_not_echoed(finished: RunPaths) -> None:
    with watched(finished, "select.select([0], [], [])") as terminal:
        terminal.until("phases", "config")
        assert b"\x1b[?1004h" not in terminal.output, "Textual has not begun"
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.output.rstrip().endswith(b"finished") and b"q\x1b[?1004h" not in terminal.output
        assert terminal.output.count(b"\x1b[?1049h") == 1, "some terminals clear the screen when it is entered twice"
        assert terminal.is_given_back()


def test_charts_of_a_long_run_do_not_wait_for_textual(tmp_path: Path) -> None:
    run = write_long_run(tmp_path / "long", records=20_000)  # more than is read for a first frame
    with watched(run, "select.select([0], [], [])", preview_bytes=1 << 10) as terminal:
        terminal.until("loss  train", "step 20000")
        assert b"\x1b[?1004h" not in terminal.output, "Textual has not begun"
        terminal.press("q")
        assert terminal.wait() == 0 and terminal.is_given_back()


@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP"])
def test_a_signal_before_textual_is_there_ends_it(finished: RunPaths, how: str) -> None:
    with watched(finished, f"os.kill(os.getpid(), signal.{how})") as terminal:
        assert terminal.wait() == 0
        assert b"phases" in terminal.output
        assert terminal.output.rstrip().endswith({"SIGTERM": b"terminated", "SIGHUP": b"hung_up"}[how])
        assert terminal.is_given_back()


def test_a_signal_whose_exception_python_ignores_ends_it(finished: RunPaths) -> None:
    in_a_callback = "import weakref; weakref.ref(Meanwhile(), lambda _: os.kill(os.getpid(), signal.SIGTERM))"
    with watched(finished, in_a_callback) as terminal:
        assert terminal.wait() == 0
        assert b"Exception ignored in" in terminal.output and terminal.output.rstrip().endswith(b"terminated")
        assert terminal.is_given_back()


@pytest.mark.parametrize("is_after", [False, True])
def test_a_signal_while_it_is_written_ends_it(finished: RunPaths, is_after: bool) -> None:
    script = WHILE_WRITTEN.format(is_after=is_after)
    with Terminal([sys.executable, "-c", script, str(finished.root)], Path.cwd(), (100, 30)) as terminal:
        assert terminal.wait() == 0
        assert terminal.output.rstrip().endswith(b"terminated")
        assert (b"\x1b[?1049h" in terminal.output) == is_after and terminal.is_given_back()


def test_a_fault_before_textual_is_there_gives_the_terminal_back(finished: RunPaths) -> None:
    with watched(finished, "raise RuntimeError('no such luck')") as terminal:
        assert terminal.wait() == 1
        assert terminal.output.rindex(b"no such luck") > terminal.output.rindex(b"\x1b[?1049l")
        assert terminal.is_given_back()
