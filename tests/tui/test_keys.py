from __future__ import annotations

from trainer.tui import screens
from trainer.tui.app import Dashboard
from trainer.tui.keys import ACTIONS, SCREENS, actions_of, key_name

OF_SCREENS = {name: screens.screen_named(name) for name in SCREENS}
DIALOGUES = {
    "stop dialogue": screens.StopDialogue,
    "help": screens.HelpDialogue,
    "text entry": screens.TextEntry,
}
TARGETS = {"everywhere": Dashboard, **OF_SCREENS, **DIALOGUES}


def test_every_action_of_the_table_can_be_done() -> None:
    for action in ACTIONS:
        assert callable(getattr(TARGETS[action.scope], f"action_{action.name}"))


def test_no_key_has_two_meanings_in_one_place() -> None:
    everywhere = [key for action in actions_of("everywhere") for key in action.keys]
    for scope in TARGETS:
        keys = [key for action in actions_of(scope) for key in action.keys]  # type: ignore[arg-type]
        keys += everywhere if scope in OF_SCREENS else []
        assert len(keys) == len(set(keys)), scope


def test_the_table_is_all_that_dispatches() -> None:
    everywhere = {key for action in actions_of("everywhere") for key in action.keys}
    for scope, screen in {"everywhere": screens.RunScreen, **OF_SCREENS, **DIALOGUES}.items():
        own = {key for action in actions_of(scope) for key in action.keys}  # type: ignore[arg-type]
        assert set(screen._merge_bindings().key_to_bindings) == own | (everywhere if scope in OF_SCREENS else set())


def test_every_screen_has_the_scope_of_its_name() -> None:
    assert all(screen.scope == name for name, screen in OF_SCREENS.items())


def test_help_texts_fit_eighty_columns() -> None:
    assert max(len(action.help) for action in ACTIONS) <= 80 - 4 - 17
    assert [key_name(key) for key in ("question_mark", "ctrl+c", "x", "escape")] == ["?", "Ctrl-C", "x", "Esc"]
