"""In which form a run is shown."""

from __future__ import annotations

import argparse
import enum
import os
import sys


class Form(enum.Enum):
    """How events are printed."""

    PLAIN = "plain"
    JSON = "json"


def on_terminal(arguments: argparse.Namespace) -> bool:
    """Whether the dashboard can be shown and nothing else was asked for."""
    if arguments.plain or arguments.json:
        return False
    if "TEXTUAL_DRIVER" in os.environ:  # set by textual-serve: the terminal is a page
        return True
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
