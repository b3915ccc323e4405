"""Selects how a run is displayed."""

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
    """Whether to show the dashboard: there is a terminal and no other output was requested."""
    if arguments.plain or arguments.json:
        return False
    if "TEXTUAL_DRIVER" in os.environ:  # set by textual-serve: the terminal is a web page
        return True
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
