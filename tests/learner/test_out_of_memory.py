"""A step that the machine has no memory for names what holds it and what to lower."""

from __future__ import annotations

from typing import Any

import pytest

from trainer.engine.targets.cpu.arena import Arena
from trainer.learner import Learner
from trainer.learner.checkpoints import steps_in
from trainer.rundir import create_run


def test_the_arena_says_that_the_system_refused() -> None:
    arena = Arena()
    with pytest.raises(MemoryError, match="MB for what a program holds"):
        arena.reserve(1 << 62)
    arena.reserve(1000)
    assert arena.size >= 1000


def test_out_of_memory_names_what_holds_most_and_what_to_lower(
    blobs: Any, config: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(arena: Arena, size: int) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(Arena, "reserve", refuse)
    paths = create_run(tmp_path, "b")
    outcome = Learner(blobs, config(device="cpu", threads=1), paths=paths).run()
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    reason = str(outcome.reason)
    assert "out of memory in the train step" in reason and "at the peak:" in reason
    assert "Lower data.batch_size (now 16)" in reason and "data.batch_size=8 train.accumulate=2" in reason
    assert "train.precision=bfloat16" in reason
    assert steps_in(paths.checkpoints) == []
