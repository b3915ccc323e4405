"""How the tiles of a task ask for memory that is read after them, a little at each step of their sums.

A processor follows few streams by itself and none beyond a page, and it holds few requests at a time: what a whole tile
or the copy of a window reads at once from memory, it waits for. Measured on Zen 4, from memory: weight gradients of 1x1
a tenth to a fifth faster, 3x3 of 32 channels, whose windows are copied, an eighth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainer.engine.targets.ir.writer import Integer, Writer

GRAIN = 4
"""Elements by which steps differ in what they ask for: cache lines hold several grains."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """A window of `rows` rows, `pitch` elements from one to the next.

    `share` tiles ask for a row, and each of the `steps` of a tile's sum for `step` elements.
    """

    rows: int
    pitch: int
    share: int
    step: int
    steps: int

    @classmethod
    def of(cls, rows: int, width: int, pitch: int, tiles: int, steps: int) -> Foresight:
        """Divides rows of `width` elements among this many tiles."""
        share, steps = max(1, tiles // rows), max(1, steps)
        return cls(rows, pitch, share, GRAIN * -(-width // (GRAIN * share * steps)), steps)

    def trimmed(self, width: int) -> Foresight:
        """The same, but a row of `width` elements is asked for by no more tiles than it takes at this step."""
        return replace(self, share=min(self.share, -(-width // (self.step * self.steps))))

    def part(self, w: Writer, tile: Integer) -> Integer:
        """Where the part of a tile, counted from 0, begins."""
        row, part = w.divide(tile, self.share)
        return w.add(w.multiply(w.minimum(row, self.rows - 1), self.pitch), w.multiply(part, self.step * self.steps))


def tile_number(w: Writer, place: Sequence[Integer], tiles: Sequence[tuple[int, int]]) -> Integer:
    """The number of the tile that begins at `place`; `tiles` are its extents and how many a task has, by axis."""
    number: Integer = 0
    for index, (extent, count) in zip(place, tiles, strict=True):
        number = w.add(w.multiply(number, count), w.divide(index, extent)[0])
    return number
