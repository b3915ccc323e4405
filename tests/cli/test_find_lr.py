"""`trainer find-lr`: the terminal, the picture, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from trainer import cli
from trainer.cli.verbs.find_lr import shown, without_divergence
from trainer.learner.range_test import RangeTest
from trainer.learner.rate_trials import MOST_TRIALS, FoundRate, RateTrial


def test_the_chart_shows_the_fall_and_not_the_divergence() -> None:
    assert without_divergence([4.0, 2.0, 1.0, 50.0]) == [4.0, 2.0, 1.0, 4.75]
    rates, losses = [1e-3, 1e-2, 1e-1, 1.0], [4.0, 2.0, 1.0, 50.0]
    both = {"optimizers.generator.learning_rate": 1.0, "optimizers.discriminator.learning_rate": 0.5}
    trials = [RateTrial(0.03, 0.51), RateTrial(0.1, float("inf"))]
    *chart, ends, lowest, smaller, larger, suggestion = shown(
        FoundRate(RangeTest(rates, losses, losses, 0.1, True), trials, 0.02, both)
    )
    assert max(map(len, (*chart, ends))) <= 80
    assert ends.endswith("learning rate 1.0e+00") and "1.0e-03" in ends
    assert lowest == "lowest loss 0.1; the loss diverged after 1"
    assert (smaller, larger) == ("training    0.03: loss 0.51", "training    0.1: diverged")
    assert suggestion == (
        "suggestion  optimizers.generator.learning_rate=0.02 optimizers.discriminator.learning_rate=0.01"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "1"), "0 < --from < --to"),
        (("--steps", "3"), "--steps of at least 20"),
        (("--trial-steps", "-1"), "--trial-steps of at least 20, or 0"),
    ],
)  # fmt: skip
def test_impossible_ranges_are_refused(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["find-lr", "digits", "--to", "0.5", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.full
def test_a_recipe_is_tested_and_leaves_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["digits", "data.batch_size=32", "--trial-steps", "20", "--json", "-o", "curve.png"]
    assert cli.main(["find-lr", *words]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["suggestions"] == {"optimizer.learning_rate": told["suggestion"]} and 1e-6 < told["suggestion"] < 1
    assert 3 <= len(told["trials"]) <= MOST_TRIALS
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]
    assert Image.open("curve.png").size == (960, 540)
