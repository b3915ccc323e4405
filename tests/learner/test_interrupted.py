"""Wherever a run is stopped, or killed after a checkpoint, it ends with the bits and the metrics of one that was not.

In the middle of an epoch, of a step of several micro-batches, of a validation, of the one with the averaged weights, of
the test.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer.learner import Hook, Learner, Moment, Training, training
from trainer.learner.checkpoints import checkpoint_folder, first_difference, read_checkpoint, steps_in
from trainer.rundir import EventWriter, MetricEvent, Request, RequestEvent, RunPaths, create_run, read_events

SETTINGS: dict[str, Any] = {
    "data": {"batch_size": 10, "valid_batch_size": 8},
    "train": {
        "epochs": 2, "accumulate": 2, "log_every_steps": 1, "ema": {}, "on_nan": "skip",
        "spike": {"window": 3, "factor": 1.01},
    },
    "schedule": {"name": "plateau", "metric": "valid/loss", "patience": 0, "gamma": 0.5},
    "validate": {"every_steps": 2},
    "checkpoint": {"every_steps": 3, "best": {"metric": "valid/loss", "mode": "min"}},
    "early_stopping": {"metric": "valid/loss", "mode": "min", "patience": 50, "warmup": 1},
    "autotune": {"mode": "off"},
}  # fmt: skip
"""Three steps an epoch, the last of one micro-batch alone."""


class At:
    """Hands over a request at some polls, counted from 1."""

    def __init__(self, requests: dict[int, str]) -> None:
        self.requests, self.polls = requests, 0

    def __call__(self) -> Sequence[Request]:
        self.polls += 1
        what = self.requests.get(self.polls)
        return [] if what is None else [Request(f"{self.polls}", what, {})]


def attempt(task: Any, config: Any, paths: RunPaths, requests: At, number: int = 1) -> str:
    resume = paths.root if number > 1 and steps_in(paths.checkpoints) else None
    with EventWriter(paths.events, attempt=number, process_start=0) as sink:
        learner = Learner(task, config, paths=paths, sink=sink, requests=requests, attempt=number, resume=resume)
        return learner.run().status


def metrics(paths: RunPaths) -> list[tuple[Any, ...]]:
    """All that counts of what was measured, but for the speed."""
    told = (record.event for record in read_events(paths.events))
    return sorted(
        (event.step, event.split, event.final, sorted((name, value) for name, value in event.values.items()
                                                      if name != "samples_per_second"))
        for event in told if isinstance(event, MetricEvent)
    )  # fmt: skip


@pytest.fixture
def whole(blobs: Any, config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunPaths, int]:
    """A run that was not interrupted, and how often it looked for requests."""
    monkeypatch.setattr(training, "LONG_STEP_SECONDS", -1.0)  # every step is a long one
    paths, looks = create_run(tmp_path, "whole"), At({})
    assert attempt(blobs, config(**SETTINGS), paths, looks) == "done"
    return paths, looks.polls


def assert_same(paths: RunPaths, whole: RunPaths) -> None:
    assert metrics(paths) == metrics(whole)
    one, other = (read_checkpoint(checkpoint_folder(each.root)) for each in (paths, whole))
    assert first_difference(one, other) is None
    assert best_of(paths) == best_of(whole)


@pytest.mark.parametrize("each", [5, pytest.param(1, marks=pytest.mark.full)])
def test_stopped_at_any_look_for_requests_it_ends_with_the_same_bits(
    blobs: Any, config: Any, tmp_path: Path, whole: tuple[RunPaths, int], each: int
) -> None:
    paths_of_whole, looks = whole
    assert looks > 30
    for look in range(1, looks + 1, each):
        paths = create_run(tmp_path, f"stopped-{look}")
        assert attempt(blobs, config(**SETTINGS), paths, At({look: "stop"})) == "stopped"
        assert attempt(blobs, config(**SETTINGS), paths, At({}), 2) == "done"
        assert_same(paths, paths_of_whole)


def test_stopped_again_and_again_it_gets_there(
    blobs: Any, config: Any, tmp_path: Path, whole: tuple[RunPaths, int]
) -> None:
    """Each attempt is stopped at its eighth look, which takes a step or two, or most of a validation."""
    paths, status, number = create_run(tmp_path, "often"), "", 0
    while status != "done":
        number += 1
        status = attempt(blobs, config(**SETTINGS), paths, At({8: "stop"}), number)
        assert number < 20
    assert_same(paths, whole[0])


@pytest.mark.parametrize("each", [6, pytest.param(1, marks=pytest.mark.full)])
def test_killed_after_a_checkpoint_that_was_asked_for_at_any_look(
    blobs: Any, config: Any, tmp_path: Path, whole: tuple[RunPaths, int], each: int
) -> None:
    """Asked for within a validation it is written there and then: whoever asks may have two minutes left."""
    paths_of_whole, looks = whole
    for look in range(2, looks, each):
        paths = create_run(tmp_path, f"killed-{look}")
        attempt(blobs, config(**SETTINGS), paths, At({look: "checkpoint", look + 3: "abort"}))
        assert attempt(blobs, config(**SETTINGS), paths, At({}), 2) == "done"
        assert_same(paths, paths_of_whole)


def test_a_checkpoint_that_is_asked_for_within_a_validation_comes_at_once(
    blobs: Any, config: Any, tmp_path: Path
) -> None:
    """And holds the weights, not their averages, which the model has meanwhile."""

    class Asks(Hook):
        is_inline = True

        def before_validation(self, training: Training, moment: Moment) -> None:
            looks.requests = {looks.polls + look: "checkpoint" for look in (2, 3)}  # in each of its two passes
            self.weights = training.task.net.state_dict()["0.weight"].copy()

        def after_checkpoint(self, training: Training, moment: Moment) -> None:
            saved.append(read_checkpoint(paths.root / str(moment.checkpoint)).arrays)

    looks, asks, events, saved = At({}), Asks(), list[Any](), list[Any]()
    settings = config(**{**SETTINGS, "train": {"steps": 2, "ema": {}}, "validate": {"every_steps": 2}})
    paths = create_run(tmp_path, "asked")
    Learner(blobs, settings, paths=paths, requests=looks, sink=events.append, hooks=[asks]).run().check()
    begun = [event for event in events if event.kind != "phase" or event.state == "started"]
    kinds = [(event.kind, getattr(event, "name", getattr(event, "state", ""))) for event in begun
             if event.kind in ("checkpoint", "request", "phase")]  # fmt: skip
    asked = [("request", "received"), ("phase", "checkpoint"), ("checkpoint", ""), ("request", "done")]
    at = kinds.index(("phase", "validate"))
    assert kinds[at : at + 10] == [("phase", "validate"), ("phase", "trace"), *asked, ("phase", "validate"), *asked[:3]]
    assert len(saved) == 3  # the third with what was measured
    for arrays in saved:
        np.testing.assert_array_equal(arrays["model"]["net.0.weight"].values, asks.weights)
        assert not np.array_equal(arrays["ema"]["net.0.weight"].values, asks.weights)


def test_a_stop_within_the_test_leaves_the_last_weights_not_the_best(blobs: Any, config: Any, tmp_path: Path) -> None:
    """The test is of the best weights: they must not be saved as those of the last step."""
    best = {"metric": "valid/loss", "mode": "max"}  # so that the first are the best
    settings = {**SETTINGS, "checkpoint": {"best": best}}
    paths = create_run(tmp_path, "test")
    looks = At({})
    attempt(blobs, config(**settings), paths, looks)
    assert best_of(paths) == "step-2"
    last = read_checkpoint(paths.checkpoints / "step-6")
    again = create_run(tmp_path, "again")
    assert attempt(blobs, config(**settings), again, At({looks.polls: "stop"})) == "stopped"
    assert first_difference(read_checkpoint(again.checkpoints / "step-6"), last) is None


def best_of(paths: RunPaths) -> str:
    return (paths.checkpoints / "best").read_text().strip()


def test_requests_that_a_run_does_not_get_to_are_refused(blobs: Any, config: Any) -> None:
    events: list[Any] = []
    looks = At({})

    def both() -> Sequence[Request]:
        found = looks()
        return [Request("a", "evaluate", {}), Request("b", "stop", {})] if looks.polls == 3 else found

    Learner(blobs, config(), requests=both, sink=events.append).run()
    answers = [(event.id, event.state) for event in events if isinstance(event, RequestEvent)]
    assert answers == [("a", "received"), ("b", "received"), ("b", "done"), ("a", "refused")]


def test_a_checkpoint_has_the_resolved_config_in_it(blobs: Any, config: Any, tmp_path: Path) -> None:
    """Taken out of its run directory it still says what it is of."""
    paths = create_run(tmp_path, "config")
    attempt(blobs, config(**SETTINGS), paths, At({10: "stop"}))
    kept = json.loads((checkpoint_folder(paths.root) / "state.json").read_text())["config"]
    assert kept["train"]["accumulate"] == 2 and kept["validate"]["batches"] is None
    kept.pop("extends")
    assert type(config()).model_validate_json(json.dumps(kept)) == config(**SETTINGS)


def test_versions_are_in_the_checkpoint_and_others_are_warned_of(blobs: Any, config: Any, tmp_path: Path) -> None:
    from trainer.learner import progress

    paths, events = create_run(tmp_path, "versions"), list[Any]()
    attempt(blobs, config(), paths, At({10: "stop"}))
    file = checkpoint_folder(paths.root) / "state.json"
    versions = json.loads(file.read_text())["versions"]
    assert set(versions) == {"trainer", "python", "numpy", "llvmlite", "pillow"} and all(versions.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "versions", lambda: {**versions, "numpy": "9.9", "later": "1"})
        Learner(blobs, config(), paths=paths, sink=events.append, attempt=2, resume=paths.root).run().check()
    said = [event.message for event in events if event.kind == "warning"]
    assert said == [
        f"numpy was {versions['numpy']}, now 9.9: the remaining steps may round differently from the previous ones."
    ]  # fmt: skip
