"""What the emulator raises: an error of a kernel, or PTX that it does not execute."""

from __future__ import annotations


class Fault(Exception):
    """An error of a kernel. `lane` is its number among the lanes that execute together, where one lane made it."""

    def __init__(self, message: str, lane: int | None = None) -> None:
        super().__init__(message)
        self.lane = lane


class Unsupported(Exception):
    """PTX that the emulator does not execute."""
