"""Pictures of every screen and recorded state of the dashboard: `python tests/tui/screen_pictures.py FOLDER [NAME …]`.

In terminals of 80x24, 120x36 and 200x60 cells, dark and light.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

from pane_use import SCREENS, SIZES, recorded_screen
from recorded_states import STATES
from rich.style import Style
from terminal_picture import DARK, LIGHT, Cell, picture_of, save


async def screen_of(state: str, keys: str, size: tuple[int, int], folder: Path) -> list[list[Cell]]:
    """Characters and styles of a screen after some keys."""
    async with recorded_screen(state, size, folder, keys, "truecolor") as app:
        return [
            [(character, segment.style or Style.null()) for segment in strip for character in segment.text]
            for strip in app.screen._compositor.render_strips()
        ]


def main() -> None:
    """Draw them."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    shots = [(state, "", state) for state in STATES] + [("finished", key, name) for key, name in SCREENS.items()]
    chosen = sys.argv[2:]
    for state, keys, name in shots:
        for size in SIZES if not chosen or name in chosen else ():
            with tempfile.TemporaryDirectory() as folder:
                rows = asyncio.run(screen_of(state, keys, size, Path(folder)))
            for look, theme in (("dark", DARK), ("light", LIGHT)):
                save(picture_of(rows, theme), target / f"{name}-{size[0]}x{size[1]}-{look}.png")


if __name__ == "__main__":
    main()
