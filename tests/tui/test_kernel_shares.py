"""Shares of a step's time, by hand."""

from __future__ import annotations

import pytest

from trainer.rundir import AutotuneEvent, StepEvent
from trainer.tui.kernel_shares import shares_of
from trainer.tui.listing import ordered
from trainer.tui.panels.kernels import BY_SHARE, kernel_rows
from trainer.tui.view import View


def test_shares_are_of_all_that_updates_and_of_nothing_else() -> None:
    generator = StepEvent(0, True, 30.0, {"a": 12.0, "b": 3.0}, {"relu 8x4": 5.0})
    discriminator = StepEvent(1, True, 10.0, {"a": 8.0})
    shares = shares_of([generator, discriminator, StepEvent(2, False, 99.0, {"c": 99.0})])
    assert shares.ms == 40.0 and shares.kernels == pytest.approx({"a": 0.5, "b": 0.075})
    assert shares.others == {"relu 8x4": 0.125}
    assert shares_of([]).kernels == {}


def test_the_table_begins_with_what_takes_most_and_has_what_is_not_tuned() -> None:
    view = View("run")
    view.decisions = {
        name: AutotuneEvent(name, "matmul", shape) for name, shape in (("a", "1x2"), ("b", "3x4"), ("c", "5x6"))
    }
    view.steps[0] = StepEvent(0, True, 10.0, {"a": 1.0}, {"matmul 3x4": 6.0, "add 7": 2.0})
    rows = ordered(kernel_rows(view), BY_SHARE)
    assert [row.cells[:3] for row in rows] == [
        ("matmul", "3x4", "60.0%"), ("add", "7", "20.0%"), ("matmul", "1x2", "10.0%"), ("matmul", "5x6", "-"),
    ]  # fmt: skip
    assert [row.cells[1] for row in kernel_rows(view, "add")] == ["7"]


@pytest.mark.parametrize(
    "is_timed_anew", [False, True], ids=["decided since it was timed", "timed since it was decided"]
)
def test_a_kernel_of_an_evaluation_has_no_share_of_a_step_though_one_of_its_name_has(is_timed_anew: bool) -> None:
    view = View("run")
    view.decisions = {"valid": AutotuneEvent("valid", "conv", "8x8"), "train": AutotuneEvent("train", "conv", "4x4")}
    view.steps[0] = StepEvent(0, True, 10.0, {}, {"conv 8x8": 6.0, "conv 4x4": 3.0})
    view.steps[1] = StepEvent(1, False, 4.0, *(({"valid": 4.0},) if is_timed_anew else ({}, {"conv 8x8": 4.0})))
    shares = shares_of(view.steps.values())
    assert shares.of(view.decisions["valid"]) is None and shares.of(view.decisions["train"]) == 0.3
    rows = [row.cells[:3] for row in ordered(kernel_rows(view), BY_SHARE)]
    assert rows == [("conv", "8x8", "60.0%"), ("conv", "4x4", "30.0%"), ("conv", "8x8", "-")]
