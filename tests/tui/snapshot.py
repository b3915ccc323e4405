"""A screen as text that a person can compare: its characters, and under each line which style each character has.

TRAINER_WRITE_SNAPSHOTS=1 pytest tests/tui/test_snapshots.py     writes them again; look at the difference in git
"""

from __future__ import annotations

import os
import re
import string
from pathlib import Path

from trainer.tui.app import Dashboard

FOLDER = Path(__file__).parent / "snapshots"
LETTERS = "." + string.ascii_letters + string.digits
PIXEL = re.compile(r"#[0-9a-f]{6} on #[0-9a-f]{6}")


def screen_of(app: Dashboard) -> str:
    """Characters and styles of the screen; `.` is the terminal's own style, pixels of pictures are all `@`."""
    styles: dict[str, str] = {"": ".", "none": "."}
    lines = []
    for strip in app.screen._compositor.render_strips():
        marks = ""
        for segment in strip:
            style = str(segment.style or "")
            if PIXEL.search(style):
                mark = "@"
            else:
                mark = styles.setdefault(style, LETTERS[min(len(set(styles.values())), len(LETTERS) - 1)])
            marks += mark * segment.cell_length
        lines += [strip.text.rstrip(), marks.rstrip(".")]
    legend = [f"{mark} {style}" for style, mark in styles.items() if style not in ("", "none")]
    return "\n".join([*lines, "", *legend]) + "\n"


def compare(name: str, screen: str) -> None:
    """Fail where the screen is not the one in `snapshots/NAME.txt`."""
    file = FOLDER / f"{name}.txt"
    if os.environ.get("TRAINER_WRITE_SNAPSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(screen, encoding="utf-8")
    assert file.exists(), f"no snapshot {name}: write it with TRAINER_WRITE_SNAPSHOTS=1 and look at it"
    assert screen == file.read_text(encoding="utf-8")
