"""The screens, one file each, and the dialogues. All but the overview are imported when they are first shown."""

from __future__ import annotations

import importlib

from trainer.tui.keys import SCREENS
from trainer.tui.screens.base import RunScreen
from trainer.tui.screens.dialogues import Dialogue, HelpDialogue, StopDialogue, TextEntry
from trainer.tui.screens.overview import Overview

__all__ = ["Dialogue", "HelpDialogue", "Overview", "RunScreen", "StopDialogue", "TextEntry", "screen_named"]


def screen_named(name: str) -> type[RunScreen]:
    """The screen class of a name in `SCREENS`."""
    assert name in SCREENS
    screen: type[RunScreen] = getattr(importlib.import_module(f"{__name__}.{name}"), name.capitalize())
    return screen
