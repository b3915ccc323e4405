"""The terminal driver: draws before it asks the terminal anything, and speaks plain ASCII where it must."""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver

_LOOKALIKES = {
    "|": "│┃▊▎▌▐",
    "-": "─━▔▁",
    "+": "┌┐└┘╭╮╰╯├┤┬┴┼",
    " ": "\u00a0",
    "  ": "🔎",
    "~": "…",
    "*": "●•·",
    "o": "○",
    "v": "✓",
    "x": "✗",
    "#": "■█▇▆▅▄▃▂",
    ">": "→▶❯",
}
_TO_ASCII = str.maketrans({character: ascii for ascii, characters in _LOOKALIKES.items() for character in characters})


class DashboardDriver(LinuxDriver):
    """Textual's driver, with its questions (synchronised output, in-band resizing) put off until `ask_terminal`.

    A terminal that is slow to answer, or that prints questions which it does not know, then does so below a frame.
    """

    ascii_only = False

    def _request_terminal_sync_mode_support(self) -> None:
        pass  # asked in ask_terminal

    def _query_in_band_window_resize(self) -> None:
        pass  # asked in ask_terminal

    def ask_terminal(self) -> None:
        """Ask what the terminal supports; called once the first frame is out."""
        super()._request_terminal_sync_mode_support()
        super()._query_in_band_window_resize()

    def write(self, data: str) -> None:
        """Write to the terminal; without UTF-8 every other character has an ASCII one in its place."""
        if self.ascii_only and not data.isascii():
            data = data.translate(_TO_ASCII).encode("ascii", "replace").decode("ascii")
        super().write(data)
