from __future__ import annotations

from trainer.tui.app import Dashboard
from trainer.tui.keys import ACTIONS, actions_of, key_name
from trainer.tui.screens import HelpDialogue, RunScreen, StopDialogue

TARGETS = {"everywhere": Dashboard, "stop dialogue": StopDialogue, "help": HelpDialogue}
SCREENS = {"everywhere": RunScreen, "stop dialogue": StopDialogue, "help": HelpDialogue}


def test_every_action_of_the_table_can_be_done() -> None:
    for action in ACTIONS:
        assert callable(getattr(TARGETS[action.scope], f"action_{action.name}"))


def test_no_key_has_two_meanings_in_one_place() -> None:
    for scope in TARGETS:
        keys = [key for action in actions_of(scope) for key in action.keys]  # type: ignore[arg-type]
        assert len(keys) == len(set(keys))


def test_the_table_is_all_that_dispatches() -> None:
    for scope, screen in SCREENS.items():
        bound = set(screen._merge_bindings().key_to_bindings)
        assert bound == {key for action in actions_of(scope) for key in action.keys}  # type: ignore[arg-type]


def test_help_texts_fit_eighty_columns() -> None:
    assert max(len(action.help) for action in ACTIONS) <= 80 - 4 - 17
    assert [key_name(key) for key in ("question_mark", "ctrl+c", "x", "escape")] == ["?", "Ctrl-C", "x", "Esc"]
