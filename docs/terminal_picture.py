"""A picture of a terminal: `tmux capture-pane -e -p | python docs/terminal_picture.py FILE.png`, drawn by Chromium.

Each cell is placed by itself, so that whatever font draws the dots of a chart, columns stay columns.
"""

from __future__ import annotations

import html
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

CELL_WIDTH, CELL_HEIGHT = 9, 18
COLOURS = 64
INK, PAPER = "#d8d8d8", "#101418"


def page(captured: str, columns: int) -> str:
    """The terminal as HTML."""
    console = Console(width=columns, color_system="truecolor", force_terminal=True, legacy_windows=False)
    rows = []
    for line in Text.from_ansi(captured).split("\n"):
        cells, column = [], 0
        for segment in line.render(console, end=""):
            for character in segment.text:
                left = f"left:{column * CELL_WIDTH}px;{css(segment.style)}"
                if character == "▀" and segment.style is not None and segment.style.bgcolor is not None:
                    upper, lower = (colour.get_truecolor().hex for colour in halves(segment.style))
                    left += f";background:linear-gradient({upper} 50%, {lower} 50%)"
                    character = " "
                if character != " " or "background" in left:
                    cells.append(f'<b style="{left}">{html.escape(character)}</b>')
                column += 1
        rows.append(f"<p>{''.join(cells)}</p>")
    return f"""<!doctype html><meta charset="utf-8"><style>
body {{ margin: 8px; background: {PAPER}; color: {INK}; font: 14px 'DejaVu Sans Mono', 'DejaVu Sans', monospace; }}
p {{ position: relative; margin: 0; height: {CELL_HEIGHT}px; line-height: {CELL_HEIGHT}px; white-space: pre; }}
b {{ position: absolute; top: 0; width: {CELL_WIDTH}px; height: {CELL_HEIGHT}px; font-weight: inherit; }}
</style>{"".join(rows)}"""


def halves(style: Style) -> tuple[Color, Color]:
    """The colours of the upper and the lower half of a cell of a picture."""
    assert style.color is not None and style.bgcolor is not None
    return style.color, style.bgcolor


def css(style: Style | None) -> str:
    """A style of the terminal's as one of the page's."""
    if style is None:
        return ""
    ink = style.color.get_truecolor().hex if style.color is not None and not style.color.is_default else INK
    paper = style.bgcolor.get_truecolor().hex if style.bgcolor is not None and not style.bgcolor.is_default else None
    if style.reverse:
        ink, paper = paper or PAPER, ink
    told = [f"color:{ink}"] + ([f"background:{paper}"] if paper else []) + (["font-weight:bold"] if style.bold else [])
    return ";".join(told)


def main() -> None:
    """Read what tmux captured, draw it."""
    captured, target = sys.stdin.read().rstrip("\n"), Path(sys.argv[1])
    lines = Text.from_ansi(captured).split("\n")
    columns = max(line.cell_len for line in lines)
    chromium = shutil.which("chromium") or "chromium"
    size = f"{columns * CELL_WIDTH + 16},{len(lines) * CELL_HEIGHT + 16}"
    with tempfile.TemporaryDirectory() as folder:
        source, drawn = Path(folder) / "page.html", Path(folder) / "page.png"
        source.write_text(page(captured, columns), encoding="utf-8")
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}"]
        words += [f"--user-data-dir={folder}/profile", f"--screenshot={drawn}", source.as_uri()]
        subprocess.run([chromium, *words], check=True, capture_output=True)
        picture = Image.open(drawn).convert("RGB")
        width, height = map(int, size.split(","))
        picture = picture.crop((0, 0, min(width, picture.width), min(height, picture.height)))
        picture.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    main()
