"""The line of diagnosis: one sentence for what matters most, a pure function of the run."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from trainer.rundir import EndEvent, Event, MetricEvent, PhaseEvent, Record, SystemEvent
from trainer.tui.diagnosis import Diagnosis, diagnose
from trainer.tui.status import DONE, FAILED, LOST, PAUSED, RUNNING, SILENT, STARTING, Status
from trainer.tui.view import View

STEPS = 10
"""Steps of an epoch."""


def view_of(events: Iterable[Event] = ()) -> View:
    view = View("digits", leading="valid/accuracy")
    for number, event in enumerate(events):
        view.apply(Record(event, float(number), float(number), 1))
    return view


def training(count: int, loss: float = 1.0, **metrics: float) -> list[Event]:
    """A loss that falls to half, a value a step."""
    return [MetricEvent(step, step / STEPS, "train", {"loss": loss * (1 - 0.5 * step / count), **metrics})
            for step in range(1, count + 1)]  # fmt: skip


def validations(name: str, values: Iterable[float]) -> list[Event]:
    return [MetricEvent(epoch * STEPS, float(epoch), "valid", {name: value}) for epoch, value in enumerate(values, 1)]


def text(events: Iterable[Event], status: Status = RUNNING) -> str:
    found = diagnose(view_of(events), status)
    return "" if found is None else found.text


def test_a_fresh_run_says_what_is_in_progress() -> None:
    assert diagnose(view_of(), STARTING) is None
    assert text([PhaseEvent("compile", "progress", 14, 61)], STARTING) == "In progress: compile 14 of 61."


def test_a_run_that_learns_says_so_with_its_gradient_norm() -> None:
    found = diagnose(view_of(training(100, gradient_norm=1.25)), RUNNING)
    assert found is not None and found.role == "good"
    assert found.text.startswith("train/loss falls: ") and found.text.endswith(" now. Gradient norm 1.25.")


@pytest.mark.parametrize(("wait", "is_told"), [(0.1, False), (0.45, True)])
def test_waiting_for_data(wait: float, is_told: bool) -> None:
    found = text([*training(100), SystemEvent(data_wait=wait)])
    assert ("Waiting for data 45% of the time: raise data.workers" in found) == is_told
    assert "Waiting" not in text([*training(100), SystemEvent(data_wait=wait)], DONE)


def test_overfitting_since_the_best_validation() -> None:
    losses = [0.9, 0.6, 0.5, 0.55, 0.6, 0.65]
    found = diagnose(view_of([*training(60), *validations("loss", losses)]), RUNNING)
    text = "Overfitting since epoch 3: valid/loss rose from 0.5 to 0.65 while train/loss fell."
    assert found == Diagnosis(text, "warn")


@pytest.mark.parametrize(
    "losses", [[0.9, 0.6, 0.5, 0.55, 0.6], [0.9, 0.6, 0.5, 0.501, 0.502, 0.503], [0.9, 0.5, 0.6, 0.7, 0.5]]
)
def test_few_or_slightly_worse_validations_are_no_overfitting(losses: list[float]) -> None:
    assert "Overfitting" not in text([*training(60), *validations("loss", losses)])


def test_a_validation_loss_that_rises_with_the_training_loss_is_no_overfitting() -> None:
    rising = [MetricEvent(step, step / STEPS, "train", {"loss": 1 + step / 200}) for step in range(1, 61)]
    assert "Overfitting" not in text([*rising, *validations("loss", [0.9, 0.6, 0.5, 0.55, 0.6, 0.65])])


def test_a_metric_that_stands_still() -> None:
    events = [*training(80), *validations("accuracy", [0.5, 0.9, 0.9, 0.89, 0.9, 0.88, 0.9])]
    assert text(events) == "No improvement of valid/accuracy for 5 validations: 0.9 at epoch 2."


def test_a_gradient_norm_that_jumps_is_a_risk() -> None:
    events = [*training(100, gradient_norm=2.0), MetricEvent(101, 10.1, "train", {"loss": 0.5, "gradient_norm": 90.0})]
    assert text(events).startswith("NaN risk: gradient norm 90, recent median 2; ")


def test_a_loss_that_leaves_its_minimum_is_a_risk() -> None:
    rising = [MetricEvent(step, step / STEPS, "train", {"loss": 0.5 + (step - 100) / 20}) for step in range(101, 150)]
    assert text([*training(100), *rising]).startswith("NaN risk: train/loss rose from 0.5")


def test_a_loss_that_is_not_finite_comes_first() -> None:
    broken = [MetricEvent(step, step / STEPS, "train", {"loss": math.nan}) for step in range(101, 110)]
    found = diagnose(view_of([*training(100), *broken, SystemEvent(data_wait=0.9)]), RUNNING)
    assert (
        found is not None and found.role == "bad" and found.text.startswith("train/loss is not finite since step 101: ")
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (LOST, "`trainer run --resume digits`"),
        (SILENT, "No heartbeat"),
        (PAUSED, "p resumes"),
        (FAILED, "Failed: disk full"),
    ],
)
def test_states_of_the_process(status: Status, words: str) -> None:
    end = [EndEvent("failed", 1, reason="disk full")] if status == FAILED else []
    assert words in text([*training(100), *end], status)


def test_a_run_that_is_over_has_its_best_value() -> None:
    events = [*training(60), *validations("accuracy", [0.5, 0.9, 0.8]), EndEvent("done", 0)]
    assert text(events, DONE) == "Best valid/accuracy 0.9 at epoch 2."
