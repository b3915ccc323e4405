"""The one table of everything a key can do: it drives dispatch, the help screen, the footer and the command palette.

A row names the method `action_<name>` of the app or of the dialogue it belongs to; a test asserts that each exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Scope = Literal[
    "everywhere", "overview", "metrics", "kernels", "samples", "evaluation", "runs", "config",
    "stop dialogue", "help", "text entry",
]  # fmt: skip


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


SCREENS = ("overview", "metrics", "kernels", "samples", "evaluation", "runs", "config")
"""The screens, in the order of their keys."""

ACTIONS: tuple[Action, ...] = (
    Action("overview", ("1",), "overview", "Phases, charts, system and log", in_footer=True),
    Action("metrics", ("2",), "metrics", "Every metric as a chart", in_footer=True),
    Action("kernels", ("3",), "kernels", "What autotuning decided for each kernel", in_footer=True),
    Action("samples", ("4",), "samples", "Pictures and texts that the run has shown", in_footer=True),
    Action("evaluation", ("5",), "evaluation", "Confusion matrix, curves, tables, the worst items", in_footer=True),
    Action("runs", ("6",), "runs", "The runs beside this one, over each other", in_footer=True),
    Action("config", ("7",), "config", "The configuration, and where each value came from", in_footer=True),
    Action(
        "previous_run", ("left_square_bracket",), "previous run", "Of several runs that are watched, the one before"
    ),
    Action("next_run", ("right_square_bracket",), "next run", "The one after, as in `trainer watch A B`"),
    Action("checkpoint", ("c",), "checkpoint", "Write a checkpoint after this step", in_footer=True, needs_worker=True),
    Action("evaluate", ("e",), "evaluate", "Evaluate the validation split after this step", needs_worker=True),
    Action("pause", ("p",), "pause", "Pause training after this step, or resume it", in_footer=True, needs_worker=True),
    Action("stop", ("x",), "stop", "Stop: finish this step and save, or abort", in_footer=True, needs_worker=True),
    Action("detach", ("q", "ctrl+q"), "detach", "Leave this screen; training goes on", in_footer=True),
    Action("help", ("question_mark",), "help", "List every key", in_footer=True),
    Action("interrupt", ("ctrl+c",), "interrupt", "Ask how to stop; once more interrupts the training"),
    Action("suspend_process", ("ctrl+z",), "suspend", "Back to the shell; `fg` returns here, training goes on"),
    Action("command_palette", ("ctrl+p",), "commands", "Search all commands", in_palette=False),
    Action("scroll_up", ("up",), "scroll up", "Scroll up, or to the row above"),
    Action("scroll_down", ("down",), "scroll down", "Scroll down, or to the row below"),
    Action("page_up", ("pageup",), "page up", "Scroll up by a page"),
    Action("page_down", ("pagedown",), "page down", "Scroll down by a page"),
    Action("scroll_home", ("home",), "first line", "To the first line"),
    Action("scroll_end", ("end",), "last line", "To the last line; the log follows again"),
    # ---
    Action("next_pane", ("tab", "right"), "next pane", "Next pane, where there is room for only one", "overview"),
    Action("previous_pane", ("shift+tab", "left"), "previous pane", "Previous pane", "overview"),
    Action("log_level", ("f",), "log level", "Log: all, warnings and errors, or errors alone", "overview"),
    Action("search", ("slash",), "search log", "Log: only lines with a text", "overview"),
    # ---
    Action("search", ("slash",), "filter", "Only metrics whose name has a text", "metrics", in_footer=True),
    Action("enlarge", ("enter",), "enlarge", "One chart on the whole screen, or all again", "metrics", in_footer=True),
    Action("next_chart", ("tab",), "next chart", "The next chart", "metrics"),
    Action("previous_chart", ("shift+tab",), "previous chart", "The chart before", "metrics"),
    Action("log_scale", ("l",), "scale", "Scale: automatic, logarithmic or linear", "metrics", in_footer=True),
    Action("outliers", ("o",), "outliers", "Fit the range to all values, or leave outliers at the edge", "metrics",
           in_footer=True),
    Action("smoothing", ("m",), "smoothing", "Smoothing: 0.9, 0.99 or none", "metrics", in_footer=True),
    Action("zoom_in", ("plus", "equals_sign"), "zoom in", "Show half of the steps", "metrics", in_footer=True),
    Action("zoom_out", ("minus",), "zoom out", "Show twice as many steps", "metrics", in_footer=True),
    Action("zoom_all", ("0",), "all steps", "Show all steps, without the cross-hair", "metrics"),
    Action("pan_left", ("shift+left",), "earlier", "Show earlier steps", "metrics"),
    Action("pan_right", ("shift+right",), "later", "Show later steps", "metrics"),
    Action("cursor_left", ("left",), "cross-hair left", "Values a little earlier, in all charts", "metrics"),
    Action("cursor_right", ("right",), "cross-hair right", "Values a little later, in all charts", "metrics"),
    # ---
    Action("sort", ("s",), "sort", "Sort by the next column", "kernels", in_footer=True),
    Action("reverse", ("r",), "reverse", "Sort the other way round", "kernels", in_footer=True),
    Action("search", ("slash",), "filter", "Only kernels with a text", "kernels", in_footer=True),
    # ---
    Action("older", ("left",), "older", "The pictures before these", "samples", in_footer=True),
    Action("newer", ("right",), "newer", "The pictures after these", "samples", in_footer=True),
    Action(
        "enlarge", ("enter",), "enlarge", "One picture on the whole screen, or all again", "samples", in_footer=True
    ),
    Action("next_sample", ("tab",), "next", "The next picture", "samples"),
    Action("previous_sample", ("shift+tab",), "previous", "The picture before", "samples"),
    Action("boxes", ("b",), "boxes", "Boxes over the pictures, or not", "samples", in_footer=True),
    Action("masks", ("m",), "masks", "Masks over the pictures, or not", "samples", in_footer=True),
    Action("labels", ("n",), "names", "Names of classes on an enlarged picture, or not", "samples"),
    # ---
    Action("next_report", ("tab", "right"), "next", "The next report", "evaluation", in_footer=True),
    Action("previous_report", ("shift+tab", "left"), "previous", "The report before", "evaluation"),
    Action("view", ("v",), "view", "Its matrix, curves or table", "evaluation", in_footer=True),
    Action("sort", ("s",), "sort", "Sort a table by the next column", "evaluation", in_footer=True),
    Action("reverse", ("r",), "reverse", "Sort the other way round", "evaluation"),
    Action("enlarge", ("enter",), "enlarge", "An item's pictures alone, or the list", "evaluation", in_footer=True),
    Action("boxes", ("b",), "boxes", "Boxes over the pictures, or not", "evaluation"),
    Action("masks", ("m",), "masks", "Masks over the pictures, or not", "evaluation"),
    Action("labels", ("n",), "names", "Names of classes on enlarged pictures, or not", "evaluation"),
    # ---
    Action("choose", ("enter",), "look at", "Look at this run", "runs", in_footer=True),
    Action("mark", ("space",), "mark", "Lay this run's curve over the others, or not", "runs", in_footer=True),
    Action("next_metric", ("tab",), "next metric", "The next metric in the chart", "runs", in_footer=True),
    Action("previous_metric", ("shift+tab",), "previous metric", "The metric before", "runs"),
    Action(
        "differences", ("d",), "differences", "In what the marked runs' configurations differ", "runs", in_footer=True
    ),
    # ---
    Action("search", ("slash",), "search", "Only lines with a text", "config", in_footer=True),
    # ---
    Action("finish", ("s", "enter"), "stop", "Finish this step, write a checkpoint and stop", scope="stop dialogue"),
    Action("abort", ("a",), "abort", "Abort now; the last checkpoint stays", scope="stop dialogue"),
    Action("interrupt", ("ctrl+c",), "interrupt", "Send the training process an interrupt", scope="stop dialogue"),
    Action("cancel", ("escape", "q", "x"), "cancel", "Close this dialogue; training goes on", scope="stop dialogue"),
    Action("scroll_up", ("up", "pageup"), "scroll up", "Scroll up", scope="help"),
    Action("scroll_down", ("down", "pagedown"), "scroll down", "Scroll down", scope="help"),
    Action("close", ("escape", "question_mark", "q", "enter"), "close", "Close the help", scope="help"),
    Action("accept", ("enter",), "accept", "Keep the text", scope="text entry"),
    Action("cancel", ("escape", "ctrl+c"), "cancel", "Drop the text", scope="text entry"),
    Action("erase", ("backspace",), "erase", "Erase a letter", scope="text entry"),
    Action("erase_all", ("ctrl+u",), "erase all", "Erase the text", scope="text entry"),
)

MOUSE: tuple[tuple[str, str], ...] = (
    ("click", "A key in the last line, a tab, a chart, a row, a column's head"),
    ("double click", "All steps again; a picture on the whole screen; look at a run"),
    ("wheel", "Scroll; over a chart: zoom around the pointer"),
    ("drag", "Show earlier or later steps"),
    ("hover", "Values at the pointer, in all charts"),
    ("Shift-drag", "Select text, as the terminal does by itself"),
)
"""What the mouse does, for the help."""

_KEY_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "space": "Space",
    "backspace": "Backspace",
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
    for prefix, name in (("ctrl+", "Ctrl-"), ("shift+", "Shift-")):
        if key.startswith(prefix):
            rest = key.removeprefix(prefix)
            return name + (rest.upper() if len(rest) == 1 else key_name(rest))
    return key
