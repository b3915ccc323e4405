from __future__ import annotations

import pytest

from trainer.rundir import EndEvent, LockState, Record, RequestEvent
from trainer.tui.glyphs import ASCII, UNICODE
from trainer.tui.status import SILENT_AFTER_SECONDS, STARTING_SECONDS, Status, status_of
from trainer.tui.view import View

NOW = 1000.0


def view(*events: object) -> View:
    seen = View("run")
    for event in events:
        seen.apply(Record(event, NOW, 0.0, 1))  # type: ignore[arg-type]
    return seen


def lock(heartbeat: float = NOW, alive: bool = True) -> LockState:
    return LockState(17, "here", heartbeat, alive)


@pytest.mark.parametrize(
    ("seen", "held", "at", "word"),
    [
        (view(), None, NOW, "STARTING"),
        (view(RequestEvent("1", "checkpoint", "done")), None, NOW + STARTING_SECONDS - 1, "STARTING"),
        (view(RequestEvent("1", "checkpoint", "done")), None, NOW + STARTING_SECONDS + 1, "LOST"),
        (view(), lock(), NOW, "RUNNING"),
        (view(), lock(alive=False), NOW, "LOST"),
        (view(), lock(), NOW + SILENT_AFTER_SECONDS + 1, "SILENT"),
        (view(RequestEvent("1", "pause", "done")), lock(), NOW, "PAUSED"),
        (view(RequestEvent("1", "pause", "done"), RequestEvent("2", "resume", "done")), lock(), NOW, "RUNNING"),
        (view(RequestEvent("1", "pause", "refused", "no")), lock(), NOW, "RUNNING"),
        (view(RequestEvent("1", "stop", "received")), lock(), NOW, "STOPPING"),
        (view(RequestEvent("1", "prune", "received")), lock(), NOW, "STOPPING"),
        (view(EndEvent("done", 0)), lock(alive=False), NOW, "DONE"),
        (view(EndEvent("stopped", 0)), None, NOW, "STOPPED"),
        (view(EndEvent("interrupted", 130)), None, NOW, "INTERRUPTED"),
        (view(EndEvent("failed", 1)), None, NOW + 9999, "FAILED"),
    ],
)
def test_each_state_of_a_run_has_its_word(seen: View, held: LockState | None, at: float, word: str) -> None:
    assert status_of(seen, held, at).word == word


def test_a_later_attempt_opens_a_run_that_had_ended() -> None:
    seen = view(EndEvent("failed", 1))
    seen.apply(Record(RequestEvent("1", "checkpoint", "received"), NOW, 0.0, 2))
    assert status_of(seen, lock(), NOW).word == "RUNNING"


def test_every_state_has_a_glyph_in_both_sets() -> None:
    from trainer.tui import status

    states = [value for value in vars(status).values() if isinstance(value, Status)]
    assert len(states) == 12
    for state in states:
        for glyphs in (UNICODE, ASCII):
            assert len(getattr(glyphs, state.glyph)) == 1


def test_the_ascii_set_is_ascii() -> None:
    assert all(value.isascii() for value in ASCII if isinstance(value, str))
