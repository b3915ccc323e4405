"""The update of a changed screen: only the changed cells.

Textual's own update writes each changed line of a widget from its left edge: a cross-hair that moves in twenty charts
takes 10 kB per frame that way, and 2 kB this way.
"""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.control import Control
from textual._compositor import ChopsUpdate, CompositorUpdate


class NarrowUpdate(CompositorUpdate):
    """The cells of Textual's update that have changed."""

    def __init__(self, update: ChopsUpdate) -> None:
        self._update = update

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._update.__rich_console__(console, options)

    def render_segments(self, console: Console) -> str:
        """The escape sequences and characters."""
        written = []
        for y, start, end in self._update.spans:
            for edge, (x, strip) in zip(self._update.chop_ends[y], self._update.chops[y].items(), strict=False):
                first, last = max(x, start), min(edge, end)
                if strip is not None and first < last:
                    written += [Control.move_to(first, y).segment.text, strip.crop(first - x, last - x).render(console)]
        return "".join(written)
