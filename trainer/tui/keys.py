"""The table of all keys: it drives dispatch, the help, the footer and the command palette.

A row names the method `action_<name>` of the app, a screen or a dialogue; a test asserts that each exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

Scope = Literal[
    "everywhere", "overview", "metrics", "kernels", "samples", "evaluation", "runs", "config", "sweep",
    "ranks", "stop dialogue", "help", "text entry",
]  # fmt: skip


class Action(NamedTuple):
    """One user action."""

    name: str
    keys: tuple[str, ...]
    label: str
    help: str
    scope: Scope = "everywhere"
    in_footer: bool = False
    in_palette: bool = True
    needs_worker: bool = False


SCREENS = ("overview", "metrics", "samples", "evaluation", "kernels", "runs", "config", "sweep", "ranks")
"""The screens, in the order of their keys."""

ACTIONS: tuple[Action, ...] = (
    Action("overview", ("1",), "overview", "Phases, metrics, charts, newest samples, system and log", in_footer=True),
    Action("metrics", ("2",), "metrics", "A chart for each metric", in_footer=True),
    Action(
        "samples",
        ("3",),
        "samples",
        "Predictions next to their ground truth, pictures, texts",
        in_footer=True,
    ),
    Action("evaluation", ("4",), "evaluation", "Confusion matrix, curves, tables, worst items", in_footer=True),
    Action("kernels", ("5",), "kernels", "The autotuning decision for each kernel", in_footer=True),
    Action("runs", ("6",), "runs", "All runs of the folder, compared", in_footer=True),
    Action("config", ("7",), "config", "The configuration, and the origin of each value", in_footer=True),
    Action("sweep", ("8",), "sweep", "The trials of the sweep that the run belongs to"),
    Action("ranks", ("9",), "ranks", "The processes that train together, the slowest first"),
    Action("previous_run", ("left_square_bracket",), "previous run", "The previous one of several watched runs"),
    Action(
        "next_run", ("right_square_bracket",), "next run", "The next one of several watched runs (`trainer watch A B`)"
    ),
    Action("checkpoint", ("c",), "checkpoint", "Write a checkpoint after this step", in_footer=True, needs_worker=True),
    Action("evaluate", ("e",), "evaluate", "Evaluate the validation split after this step", needs_worker=True),
    Action("pause", ("p",), "pause", "Pause training after this step, or resume it", in_footer=True, needs_worker=True),
    Action("stop", ("x",), "stop", "Stop: finish this step and save, or abort", in_footer=True, needs_worker=True),
    Action("detach", ("q", "ctrl+q"), "detach", "Leave the dashboard; training continues", in_footer=True),
    Action("help", ("question_mark",), "help", "List all keys", in_footer=True),
    Action(
        "interrupt",
        ("ctrl+c",),
        "interrupt",
        "Ask how to stop; twice: interrupt the training process",
    ),
    Action("suspend_process", ("ctrl+z",), "suspend", "Back to the shell; training continues and `fg` returns here"),
    Action("command_palette", ("ctrl+p",), "commands", "Search all commands", in_palette=False),
    Action("scroll_up", ("up",), "scroll up", "Scroll up, or to the row above"),
    Action("scroll_down", ("down",), "scroll down", "Scroll down, or to the row below"),
    Action("page_up", ("pageup",), "page up", "Scroll up by a page"),
    Action("page_down", ("pagedown",), "page down", "Scroll down by a page"),
    Action("scroll_home", ("home",), "first line", "To the first line"),
    Action("scroll_end", ("end",), "last line", "To the last line; the log follows again"),
    # ---
    Action("next_pane", ("tab", "right"), "next pane", "Next pane, on a small terminal", "overview"),
    Action("previous_pane", ("shift+tab", "left"), "previous pane", "Previous pane, on a small terminal", "overview"),
    Action("log_level", ("f",), "log level", "Log: all, warnings and errors, or errors only", "overview"),
    Action("search", ("slash",), "search log", "Log: only lines that contain a text", "overview"),
    # ---
    Action("search", ("slash",), "filter", "Only metrics whose name contains a text", "metrics", in_footer=True),
    Action("enlarge", ("enter",), "enlarge", "One chart on the whole screen, or all charts", "metrics", in_footer=True),
    Action("next_chart", ("tab",), "next chart", "The next chart", "metrics"),
    Action("previous_chart", ("shift+tab",), "previous chart", "The previous chart", "metrics"),
    Action("log_scale", ("l",), "scale", "Scale: automatic, logarithmic or linear", "metrics", in_footer=True),
    Action(
        "outliers",
        ("o",),
        "outliers",
        "Fit the range to all values, or leave outliers at the edge",
        "metrics",
        in_footer=True,
    ),
    Action("smoothing", ("m",), "smoothing", "Smoothing: 0.9, 0.99 or none", "metrics", in_footer=True),
    Action("zoom_in", ("plus", "equals_sign"), "zoom in", "Show half as many steps", "metrics", in_footer=True),
    Action("zoom_out", ("minus",), "zoom out", "Show twice as many steps", "metrics", in_footer=True),
    Action("zoom_all", ("0",), "all steps", "Show all steps, without the cross-hair", "metrics"),
    Action("pan_left", ("shift+left",), "earlier", "Show earlier steps", "metrics"),
    Action("pan_right", ("shift+right",), "later", "Show later steps", "metrics"),
    Action("cursor_left", ("left",), "cross-hair left", "Move the cross-hair of all charts left", "metrics"),
    Action("cursor_right", ("right",), "cross-hair right", "Move the cross-hair of all charts right", "metrics"),
    # ---
    Action("sort", ("s",), "sort", "Sort by the next column", "kernels", in_footer=True),
    Action("reverse", ("r",), "reverse", "Sort in the other direction", "kernels", in_footer=True),
    Action("search", ("slash",), "filter", "Only kernels that contain a text", "kernels", in_footer=True),
    # ---
    Action("older", ("left",), "older", "The previous step with samples", "samples", in_footer=True),
    Action("newer", ("right",), "newer", "The next step with samples", "samples", in_footer=True),
    Action(
        "enlarge", ("enter",), "enlarge", "One sample on the whole screen, or all samples", "samples", in_footer=True
    ),
    Action("next_sample", ("tab",), "next", "The next sample", "samples"),
    Action("previous_sample", ("shift+tab",), "previous", "The previous sample", "samples"),
    Action("boxes", ("b",), "boxes", "Show or hide boxes", "samples", in_footer=True),
    Action("masks", ("m",), "masks", "Show or hide masks", "samples", in_footer=True),
    Action("labels", ("n",), "names", "Show or hide class names on an enlarged picture", "samples"),
    Action("errors", ("w",), "errors", "Color errors (correct, wrong, missed), or classes", "samples", in_footer=True),
    # ---
    Action("next_report", ("tab", "right"), "next", "The next report", "evaluation", in_footer=True),
    Action("previous_report", ("shift+tab", "left"), "previous", "The previous report", "evaluation"),
    Action(
        "counts",
        ("percent_sign",),
        "percent",
        "Confusion matrix: percent of the true class, or counts",
        "evaluation",
        in_footer=True,
    ),
    Action("view", ("v",), "view", "Switch between matrix, curves and table", "evaluation", in_footer=True),
    Action("sort", ("s",), "sort", "Sort a table by the next column", "evaluation", in_footer=True),
    Action("reverse", ("r",), "reverse", "Sort in the other direction", "evaluation"),
    Action("enlarge", ("enter",), "enlarge", "The pictures of an item, or the list", "evaluation", in_footer=True),
    Action("boxes", ("b",), "boxes", "Show or hide boxes", "evaluation"),
    Action("masks", ("m",), "masks", "Show or hide masks", "evaluation"),
    Action("labels", ("n",), "names", "Show or hide class names on enlarged pictures", "evaluation"),
    # ---
    Action("choose", ("enter",), "open", "Open this run", "runs", in_footer=True),
    Action("mark", ("space",), "mark", "Show or hide the curve of this run", "runs", in_footer=True),
    Action("sort", ("s",), "sort", "Sort by the next column", "runs", in_footer=True),
    Action("reverse", ("r",), "reverse", "Sort in the other direction", "runs"),
    Action(
        "search",
        ("slash",),
        "filter",
        "Only runs that contain a text: name, tag, status, setting",
        "runs",
        in_footer=True,
    ),
    Action(
        "next_metric", ("tab",), "next metric", "The next metric: its best values and curves", "runs", in_footer=True
    ),
    Action("previous_metric", ("shift+tab",), "previous metric", "The previous metric", "runs"),
    Action(
        "differences", ("d",), "differences", "Differences of the marked runs' configurations", "runs", in_footer=True
    ),
    # ---
    Action("search", ("slash",), "search", "Only lines that contain a text", "config", in_footer=True),
    # ---
    Action("choose", ("enter",), "open", "Open the run of this trial", "sweep", in_footer=True),
    Action("sort", ("s",), "sort", "Sort by the next column", "sweep", in_footer=True),
    Action("reverse", ("r",), "reverse", "Sort in the other direction", "sweep", in_footer=True),
    Action("search", ("slash",), "filter", "Only trials that contain a text: state, value", "sweep", in_footer=True),
    # ---
    Action("sort", ("s",), "sort", "Sort by the next column", "ranks", in_footer=True),
    Action("reverse", ("r",), "reverse", "Sort in the other direction", "ranks", in_footer=True),
    # ---
    Action("finish", ("s", "enter"), "stop", "Finish this step, write a checkpoint and stop", scope="stop dialogue"),
    Action("abort", ("a",), "abort", "Abort now; the last checkpoint stays", scope="stop dialogue"),
    Action("interrupt", ("ctrl+c",), "interrupt", "Send the training process an interrupt", scope="stop dialogue"),
    Action("cancel", ("escape", "q", "x"), "cancel", "Close this dialogue; training continues", scope="stop dialogue"),
    Action("scroll_up", ("up", "pageup"), "scroll up", "Scroll up", scope="help"),
    Action("scroll_down", ("down", "pagedown"), "scroll down", "Scroll down", scope="help"),
    Action("close", ("escape", "question_mark", "q", "enter"), "close", "Close the help", scope="help"),
    Action("accept", ("enter",), "accept", "Keep the text", scope="text entry"),
    Action("cancel", ("escape", "ctrl+c"), "cancel", "Restore the previous text", scope="text entry"),
    Action("erase", ("backspace",), "erase", "Erase a letter", scope="text entry"),
    Action("erase_all", ("ctrl+u",), "erase all", "Erase the text", scope="text entry"),
)

MOUSE: tuple[tuple[str, str], ...] = (
    ("click", "Choose a key of the last line, a tab, a chart, a row; sort by a column"),
    ("double click", "Show all steps; enlarge a picture; open a run"),
    ("wheel", "Scroll; over a chart, zoom around the pointer"),
    ("drag", "Show earlier or later steps"),
    ("hover", "Move the cross-hair of all charts"),
    ("Shift-drag", "Select text with the terminal"),
)
"""The actions of the mouse, for the help."""

_KEY_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "percent_sign": "%",
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
    """A key as it is displayed: `?`, `Esc`, `Ctrl-C`."""
    if key in _KEY_NAMES:
        return _KEY_NAMES[key]
    for prefix, name in (("ctrl+", "Ctrl-"), ("shift+", "Shift-")):
        if key.startswith(prefix):
            rest = key.removeprefix(prefix)
            return name + (rest.upper() if len(rest) == 1 else key_name(rest))
    return key
