"""How far our numbers are from PyTorch's: losses in units of its own spread, and what is no number is never near."""

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import numpy as np
import parity
import recipe_parity
import recorded
from recipe_parity import Losses, in_spreads

from trainer import engine


def told(*values: float) -> Losses:
    return [{"loss": value} for value in values]


def test_a_steps_spread_is_the_largest_up_to_it() -> None:
    first, other = told(1.0, 1.0, 1.0, 1.0), told(1.0, 1.25, 1.0, 1.125)
    away = in_spreads([(told(1.5, 1.5, 1.5, 1.5), [first, other])])
    assert away[0] > 1e5, "until the runs come apart there is rounding alone"
    assert away[1:] == pytest.approx([2.0] * 3)


def test_of_several_losses_the_one_that_is_furthest_counts() -> None:
    first, other = [{"a": 1.0, "b": 1.0}], [{"a": 2.0, "b": 1.5}]
    assert in_spreads([([{"a": 2.0, "b": 3.0}], [first, other])]) == pytest.approx([4.0])


def test_of_several_beginnings_the_largest_spread_and_the_largest_difference_count() -> None:
    near, far = (told(1.5), [told(1.0), told(1.25)]), (told(5.0), [told(4.0), told(4.5)])
    assert in_spreads([near]) == in_spreads([near, near]) == pytest.approx([2.0])
    assert in_spreads([near, far]) == pytest.approx([2.0])
    assert in_spreads([near, (told(4.0), [told(4.0), told(4.5)])]) == pytest.approx([1.0])


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("step", range(3))
@pytest.mark.parametrize("who", ["ours", "the first of PyTorch's", "the second of PyTorch's"])
def test_a_loss_that_is_no_number_is_infinitely_far(who: str, step: int, value: float) -> None:
    ours, runs = told(1.5, 1.5, 1.5), [told(1.0, 1.0, 1.0), told(1.25, 1.25, 1.25)]
    {"ours": ours, "the first of PyTorch's": runs[0], "the second of PyTorch's": runs[1]}[who][step]["loss"] = value
    assert not math.isfinite(
        recipe_parity.largest(in_spreads([(told(1.5, 1.5, 1.5), [told(1.0, 1.0, 1.0)]), (ours, runs)]))
    )


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("step", range(3))
def test_a_loss_that_is_nan_in_float64_is_a_difference_of_nan(
    monkeypatch: pytest.MonkeyPatch, ours: bool, step: int
) -> None:
    broken = told(*(math.nan if number == step else 1.0 for number in range(3)))
    monkeypatch.setattr(recorded, "record", lambda *given, **options: broken if ours else told(1.0, 1.0, 1.0))
    monkeypatch.setattr(recipe_parity, "replayed", lambda *given: {"losses": told(1.0, 1.0, 1.0) if ours else broken})
    assert math.isnan(recipe_parity.double_difference("digits", "python"))


@pytest.mark.parametrize("name", ["ema/l1", "ema/ssim"])
def test_a_quality_that_is_nan_is_a_difference_of_nan(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    same = {"ema/l1": 1.0, "ema/ssim": 1.0}
    monkeypatch.setattr(recipe_parity, "tested_pair", lambda *given: ({**same, name: math.nan}, same))
    assert math.isnan(recipe_parity.quality_difference("pix2pix", "python", []))


@pytest.mark.parametrize("step", range(3))
def test_an_optimizer_that_makes_nan_is_a_difference_of_nan(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    start = {"first": np.ones(2), "last": np.ones(3)}
    targets = [{name: values + 1 for name, values in start.items()} for _ in range(3)]
    targets[step]["first"] = np.array([1.0, np.nan])
    theirs = [{name: values.tolist() for name, values in start.items()} for _ in range(3)]
    monkeypatch.setattr(parity, "STEPS", 3)
    monkeypatch.setattr(parity, "numbers", lambda: (start, targets))
    monkeypatch.setattr(parity, "torch_numbers", lambda python: {"optimizers": {"sgd": theirs}})
    with engine.device("reference"):
        assert math.isnan(parity.optimizer_difference("sgd", "python"))
