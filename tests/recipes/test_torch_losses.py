"""Recipes' first steps have the losses that plain PyTorch computes from the same weights, batches and dropout masks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.recipes.make_torch_losses import OVERRIDES, STEPS, recorded
from tests.tiers import tiered

EXPECTED = json.loads(Path(__file__).with_name("torch_losses.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("recipe", tiered(OVERRIDES, ("digits", "pix2pix")))
def test_the_losses_of_a_recipes_first_steps_are_pytorchs(recipe: str, tmp_path: Path) -> None:
    losses = recorded(recipe, tmp_path)
    assert len(losses) == len(EXPECTED[recipe]) == STEPS
    for step, (told, expected) in enumerate(zip(losses, EXPECTED[recipe], strict=True)):
        for name, value in expected.items():
            assert told[name] == pytest.approx(value, rel=1e-9), f"{name} of step {step}"
