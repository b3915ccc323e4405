"""Schedules equal formulas written again here for 1,000 steps, and PyTorch's; as tensors and in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.configs import Schedule, Span
from trainer.configs.schedules.composite import ProductSchedule, SequenceSchedule
from trainer.configs.schedules.decay import (
    ConstantSchedule,
    ExponentialSchedule,
    LinearSchedule,
    PolynomialSchedule,
    StepSchedule,
)
from trainer.configs.schedules.plateau import PlateauSchedule
from trainer.configs.schedules.waves import CosineSchedule, NoamSchedule, OneCycleSchedule, TriangularSchedule
from trainer.learner import LearningRate

STEPS = 1000
Formula = Callable[[int, int], float]
"""The factor at a time of a run of so much time, both in the schedule's unit."""


def decayed(gamma: float, times: list[int]) -> Formula:
    return lambda time, end: math.prod(gamma for reached in times if time >= reached)


def restarted(time: int, end: int) -> float:
    """SGDR by walking from period to period."""
    period, height, left = 50, 1.0, time
    while left >= period:
        left, period, height = left - period, 2 * period, 0.8 * height
    return 0.1 + (height - 0.1) * (1 + math.cos(math.pi * left / period)) / 2


def zigzag(time: int, end: int) -> float:
    """A triangle by walking along it."""
    height, cycle, position = 0.0, 0, 0
    for _ in range(time):
        position += 1
        height += 1 / 30 if position <= 30 else -1 / 20
        if position == 50:
            position, cycle, height = 0, cycle + 1, 0.0
    return 0.2 + 0.8 * height * 0.9**cycle


def one_cycle(time: int, end: int) -> float:
    """Two half cosines, meeting at three tenths."""
    peak = 0.3 * end - 1
    if time <= peak:
        return 0.04 + 0.96 * math.sin(math.pi / 2 * time / peak) ** 2
    low = 0.04 / 1e4
    return low + (1 - low) * math.cos(math.pi / 2 * (time - peak) / (end - 1 - peak)) ** 2


CASES: dict[str, tuple[Schedule, Formula]] = {
    "constant": (ConstantSchedule(), lambda time, end: 1.0),
    "step": (StepSchedule(by="step", step_size=150, gamma=0.3), decayed(0.3, list(range(150, STEPS, 150)))),
    "milestones": (StepSchedule(by="step", milestones=(20, 500, 900), gamma=0.5), decayed(0.5, [20, 500, 900])),
    "exponential": (ExponentialSchedule(gamma=0.995), lambda time, end: 0.995**time),
    "linear": (LinearSchedule(final_factor=0.1), lambda time, end: 1 - 0.9 * time / end),
    "linear_part": (LinearSchedule(start_factor=0.25, final_factor=1.0, duration=30),
                    lambda time, end: min(1.0, 0.25 + 0.75 * time / 30)),
    "polynomial": (PolynomialSchedule(power=0.9), lambda time, end: (1 - time / end) ** 0.9),
    "cosine": (CosineSchedule(final_factor=0.1), lambda time, end: 0.55 + 0.45 * math.cos(math.pi * time / end)),
    "cosine_periods": (CosineSchedule(period=70), lambda time, end: (1 + math.cos(math.pi * (time % 70) / 70)) / 2),
    "cosine_restarts": (CosineSchedule(period=50, period_factor=2, restart_factor=0.8, final_factor=0.1), restarted),
    "one_cycle": (OneCycleSchedule(), one_cycle),
    "triangular": (TriangularSchedule(lowest_factor=0.2, rise=30, fall=20, height_factor=0.9), zigzag),
    "noam": (NoamSchedule(warmup_steps=100, model_size=512),
             lambda time, end: 512**-0.5 * min((time + 1) ** -0.5, (time + 1) * 100**-1.5)),
    "noam_from_1": (NoamSchedule(warmup_steps=100), lambda time, end: min((time + 1) / 100, (100 / (time + 1)) ** 0.5)),
    "sequence": (SequenceSchedule(parts=(LinearSchedule(final_factor=0.5), CosineSchedule(), ConstantSchedule()),
                                  milestones=(100, 400)),
                 lambda time, end: 1 - 0.5 * time / 100 if time < 100
                 else (1 + math.cos(math.pi * (time - 100) / 300)) / 2 if time < 400 else 1.0),
    "product": (ProductSchedule(parts=(ExponentialSchedule(gamma=0.999), StepSchedule(by="step", step_size=300))),
                lambda time, end: 0.999**time * 0.1 ** (time // 300)),
}  # fmt: skip


def rates(schedule: Schedule, *, steps_per_epoch: int = 1, steps: int = STEPS) -> list[float]:
    rate = LearningRate(0.5, schedule, total_steps=steps, steps_per_epoch=steps_per_epoch)
    return [rate.at(step) for step in range(steps)]


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_by_step_equals_its_formula(name: str) -> None:
    schedule, formula = CASES[name]
    expected = [0.5 * formula(step, STEPS) for step in range(STEPS)]
    np.testing.assert_allclose(rates(schedule), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if "noam" not in name and name != "product"])
def test_a_schedule_by_epoch_equals_its_formula_of_the_epoch(name: str) -> None:
    schedule, formula = CASES[name]
    steps_per_epoch, epochs = 7, 143
    expected = [0.5 * formula(step // 7, epochs) for step in range(epochs * steps_per_epoch)]
    found = rates(schedule.model_copy(update={"by": "epoch"}), steps_per_epoch=7, steps=epochs * steps_per_epoch)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_traced_step_uses_the_same_number_and_is_traced_once(name: str) -> None:
    rate = LearningRate(0.5, CASES[name][0], total_steps=STEPS)
    traces = []

    def step(number: engine.Tensor) -> engine.Tensor:
        traces.append(1)
        return rate(number)

    with engine.device("reference"):
        traced = engine.trace(step)
        times = [0, 1, 29, 30, 31, 99, 100, 299, 300, 301, 699, 998, 999]
        found = [traced(np.asarray(time, np.int64)).item() for time in times]
    np.testing.assert_allclose(found, [rate.at(time) for time in times], rtol=1e-12)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("name", "schedule"),
    {
        "step": StepSchedule(by="step", step_size=4, gamma=0.3),
        "multistep": StepSchedule(by="step", milestones=(2, 5, 9), gamma=0.2),
        "cosine": CosineSchedule(final_factor=0.1),
        # torch's LinearLR(start_factor=1/4, total_iters=3) gives 1/4, 2/4, 3/4, 1: a warm-up of four steps.
        "warmup": ConstantSchedule(warmup_steps=4),
        "exponential": ExponentialSchedule(gamma=0.9),
        "polynomial": PolynomialSchedule(power=2.0),
        "restarts": CosineSchedule(period=3, period_factor=2, final_factor=0.1),
        "one_cycle": OneCycleSchedule(),
        "triangular": TriangularSchedule(lowest_factor=0.2, rise=3, fall=2),
    }.items(),
)
def test_rates_equal_torch(name: str, schedule: Schedule, torch_reference: dict[str, Any]) -> None:
    expected = torch_reference["schedules"][name]
    steps = {"cosine": 10, "polynomial": 12, "one_cycle": 12}.get(name, len(expected))
    rate = LearningRate(0.5, schedule, total_steps=steps)
    np.testing.assert_allclose([rate.at(step) for step in range(len(expected))], expected, rtol=1e-9, atol=1e-15)


def test_a_warm_up_comes_before_any_schedule_and_what_ends_with_the_run_begins_after_it() -> None:
    found = rates(CosineSchedule(warmup_epochs=1.0), steps_per_epoch=4, steps=40)
    np.testing.assert_allclose(found[:5], np.array([0.25, 0.5, 0.75, 1.0, 1.0]) / 2)
    assert found[22] == pytest.approx(0.25) and found[39] < 0.01
    shorter = rates(CosineSchedule(warmup_fraction=0.1), steps_per_epoch=4, steps=40)
    np.testing.assert_allclose(shorter, found)
    stepped = rates(StepSchedule(step_size=2, gamma=0.5, warmup_steps=5), steps_per_epoch=3, steps=14)
    np.testing.assert_allclose(stepped[:7], 0.5 * np.array([0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 0.5]))


@pytest.mark.parametrize(("steps", "warm_up"), [(0, 0), (2, 0), (11, 1), (1250, 100), (2500, 200)])
def test_a_fraction_of_the_run_is_rounded_to_steps(steps: int, warm_up: int) -> None:
    assert ConstantSchedule(warmup_fraction=0.08).warmup(Span(steps)) == warm_up


def test_a_fraction_of_a_run_of_unknown_length_is_refused() -> None:
    with pytest.raises(TrainerError, match="a constant schedule needs the number of steps of the run"):
        LearningRate(0.5, ConstantSchedule(warmup_fraction=0.1))


def test_a_plateau_lowers_the_rate_as_torch_does(torch_reference: dict[str, Any]) -> None:
    reference = torch_reference["plateau"]
    schedule = PlateauSchedule(metric="valid/loss", gamma=0.5, patience=2, cooldown=1, lowest_factor=0.1)
    rate, found = LearningRate(0.5, schedule), []
    for value in reference["metrics"]:
        found.append(rate.at(0))
        rate.observe({"valid/loss": value, "valid/other": 0.0})
    np.testing.assert_allclose(found, reference["rates"], rtol=1e-12)


def test_a_plateau_goes_on_from_what_was_saved_and_ignores_other_metrics() -> None:
    schedule = PlateauSchedule(metric="valid/accuracy", mode="max", patience=1, gamma=0.1)
    product = ProductSchedule(parts=(schedule, ConstantSchedule(warmup_steps=2)))
    first, second = LearningRate(1.0, product), LearningRate(1.0, product)
    for value in (0.5, 0.6, 0.6):
        first.observe({"valid/accuracy": value})
    for name, state in first.named_states().items():
        second.named_states()[name].set_value(np.asarray(state))
    first.observe({"valid/loss": 3.0})
    assert first.at(5) == second.at(5) == 1.0
    second.observe({"valid/accuracy": math.nan})
    assert second.at(5) == pytest.approx(0.1) and second.at(0) == pytest.approx(0.05)
    assert second.awaited_metrics() == ("valid/accuracy",)


def test_what_ends_with_the_run_needs_its_length() -> None:
    with pytest.raises(TrainerError, match="a cosine schedule needs the number of steps of the run"):
        LearningRate(0.1, ProductSchedule(parts=(ConstantSchedule(), CosineSchedule())))
