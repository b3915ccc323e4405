"""The one table of everything a key can do: it drives dispatch, the help screen, the footer and the command palette.

A row names the method `action_<name>` of the app or of the dialogue it belongs to; a test asserts that each exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Scope = Literal["everywhere", "stop dialogue", "help"]


@dataclass(frozen=True)
class Action:
    """One thing the user can ask for."""

    name: str
    keys: tuple[str, ...]
    label: str
    help: str
    scope: Scope = "everywhere"
    in_footer: bool = False
    in_palette: bool = True
    needs_worker: bool = False


ACTIONS: tuple[Action, ...] = (
    Action("overview", ("1",), "overview", "Phases, charts, system and log", in_footer=True),
    Action("config", ("7",), "config", "The configuration, and where each value came from", in_footer=True),
    Action("checkpoint", ("c",), "checkpoint", "Write a checkpoint after this step", in_footer=True, needs_worker=True),
    Action("pause", ("p",), "pause", "Pause training after this step, or resume it", in_footer=True, needs_worker=True),
    Action("stop", ("x",), "stop", "Stop: finish this step and save, or abort", in_footer=True, needs_worker=True),
    Action("detach", ("q", "ctrl+q"), "detach", "Leave this screen; training goes on", in_footer=True),
    Action("help", ("question_mark",), "help", "List every key", in_footer=True),
    Action("interrupt", ("ctrl+c",), "interrupt", "Ask how to stop; once more interrupts the training"),
    Action("command_palette", ("ctrl+p",), "commands", "Search all commands", in_palette=False),
    Action("next_pane", ("tab", "right"), "next pane", "Next pane, where there is room for only one"),
    Action("previous_pane", ("shift+tab", "left"), "previous pane", "Previous pane"),
    Action("scroll_up", ("up", "pageup"), "scroll up", "Scroll the log or the configuration up"),
    Action("scroll_down", ("down", "pagedown"), "scroll down", "Scroll down"),
    Action("scroll_home", ("home",), "first line", "To the first line"),
    Action("scroll_end", ("end",), "last line", "To the last line; the log follows again"),
    Action("finish", ("s", "enter"), "stop", "Finish this step, write a checkpoint and stop", scope="stop dialogue"),
    Action("abort", ("a",), "abort", "Abort now; the last checkpoint stays", scope="stop dialogue"),
    Action("interrupt", ("ctrl+c",), "interrupt", "Send the training process an interrupt", scope="stop dialogue"),
    Action("cancel", ("escape", "q", "x"), "cancel", "Close this dialogue; training goes on", scope="stop dialogue"),
    Action("close", ("escape", "question_mark", "q", "enter"), "close", "Close the help", scope="help"),
)

_KEY_NAMES = {
    "question_mark": "?",
    "escape": "Esc",
    "enter": "Enter",
    "tab": "Tab",
    "shift+tab": "Shift-Tab",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "up": "Up",
    "down": "Down",
    "left": "Left",
    "right": "Right",
}


def actions_of(scope: Scope) -> Iterator[Action]:
    """The rows of one scope, in the table's order."""
    return (action for action in ACTIONS if action.scope == scope)


def key_name(key: str) -> str:
    """A key as people write it: `?`, `Esc`, `Ctrl-C`."""
    if key in _KEY_NAMES:
        return _KEY_NAMES[key]
    return f"Ctrl-{key.removeprefix('ctrl+').upper()}" if key.startswith("ctrl+") else key
