"""A grid of cells with characters and roles, on which charts are painted."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainer.tui.text import Span

BRAILLE = 0x2800
"""The code point of the Braille character without dots; the characters with dots follow it."""


@dataclass
class Canvas:
    """Characters and roles by cell, with the ranges of both axes."""

    characters: NDArray[np.uint32]
    roles: NDArray[np.int64]
    names: list[str]
    start: float
    end: float
    bottom: float
    top: float

    @classmethod
    def blank(cls, rows: int, columns: int, start: float, end: float, bottom: float, top: float) -> Canvas:
        """A canvas of blanks."""
        characters = np.full((rows, columns), ord(" "), np.uint32)
        return cls(characters, np.zeros((rows, columns), np.int64), ["text"], start, end, bottom, top)

    def copy(self) -> Canvas:
        """A copy to paint on without changing this canvas."""
        return replace(self, characters=self.characters.copy(), roles=self.roles.copy(), names=list(self.names))

    def paint(self, cells: NDArray[np.uint32], role: str) -> None:
        """Paints the nonzero cells over the canvas; dots of the same role are combined."""
        drawn, number = cells != 0, self._number(role)
        joined = drawn & (self.roles == number) & (self.characters >= BRAILLE) & (cells >= BRAILLE)
        self.characters[joined] |= cells[joined]
        over = drawn & ~joined
        self.characters[over] = cells[over]
        self.roles[over] = number

    def mark(self, row: int, column: int, glyph: str, role: str) -> None:
        """Writes one character."""
        self.characters[row, column], self.roles[row, column] = ord(glyph), self._number(role)

    def column_of(self, step: float) -> int:
        """The column of a step; outside of the canvas if the step is not shown."""
        return int((step - self.start) / (self.end - self.start) * self.characters.shape[1])

    def _number(self, role: str) -> int:
        if role not in self.names:
            self.names.append(role)
        return self.names.index(role)


def spans_of(canvas: Canvas, row: int) -> list[Span]:
    """A row of the canvas as spans of equal role."""
    roles = canvas.roles[row]
    text = canvas.characters[row].tobytes().decode(f"utf-32-{sys.byteorder[0]}e")
    cuts = [0, *(np.flatnonzero(roles[1:] != roles[:-1]) + 1).tolist(), len(text)]
    return [(text[start:stop], canvas.names[roles[start]]) for start, stop in pairwise(cuts)]
