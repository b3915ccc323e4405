"""Whole training steps on the cpu device follow the reference device's in float64."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.engine.movement import deviation
from tests.engine.networks.networks import RESNET_50
from tests.engine.networks.training import Outcome, Pix2Pix, Residual
from tests.tiers import tiered

RESIDUAL = Residual(blocks=(1, 1, 1, 1), width=8, size=64, batch=4)
PIX2PIX = Pix2Pix(filters=4, depth=6, size=64)
FULL_RESIDUAL = Residual(RESNET_50, width=64, size=64, batch=4, learning_rate=1e-3, branch_scale=0.2, steps=2)
FULL_PIX2PIX = Pix2Pix(filters=32, depth=8, size=256, steps=2)
"""Networks of full size take two steps: one step of pix2pix keeps the reference device busy for 16 seconds."""

BEFORE_A_NORM = re.compile(r"(generator|first)\.(up\.[0-6]|down\.[1-6])\.1\.bias|(discriminator|second)\.[258]\.bias")
"""Biases that the batch norm behind them takes away: their gradient is rounding and nothing else."""


@dataclass(frozen=True)
class Tolerance:
    """On losses, relative; on states: the norm of the deviation over the norm of what training changed."""

    losses: float
    states: float


FLOAT64 = Tolerance(1e-9, 1e-9)
FLOAT32 = Tolerance(1e-3, 0.1)
"""A state that was never changed deviates by 1. Measured: 0.007 of the small networks, 0.025 of ResNet-50."""

FLOAT32_PIX2PIX = Tolerance(1e-3, 0.8)
"""Rounding moves a few values across the kink of a ReLU, and Adam's first steps go by the sign of even the smallest
gradients: measured 0.66 of a layer that sees 2x2 pixels. The first step's gradients are the finer measure; a first
moment after five steps, mostly a later gradient, may be another one altogether there.
"""
FLOAT32_GRADIENTS = Tolerance(1e-5, 0.02)
FIRST_MOMENTS = r"\.(momentum|exp_avg)$"


@functools.cache
def expected(run: Residual | Pix2Pix) -> Outcome:
    return run.run("reference", np.float64)


def check(run: Residual | Pix2Pix, dtype: type, tolerance: Tolerance, names: str = "") -> None:
    before, after, found = expected(replace(run, steps=0)), expected(run), run.run("cpu", dtype)
    np.testing.assert_allclose(found.losses, after.losses, rtol=tolerance.losses)
    found_deviations = deviations(before, after, found, names)
    beyond = {name: each for name, each in found_deviations.items() if not each <= tolerance.states}
    assert not beyond, f"{len(beyond)} of {len(found_deviations)}: {dict(list(beyond.items())[:8])}"


def deviations(before: Outcome, after: Outcome, found: Outcome, names: str) -> dict[str, float]:
    """Of each state that `names` finds, how far it is from where it should be, relative to how far it should go."""
    assert found.states.keys() == after.states.keys()
    result = {}
    for name, value in after.states.items():
        if name.endswith(".skipped_steps"):
            assert found.states[name] == value == 0, "no gradient of these runs is infinite"
        elif re.search(names, name) and not BEFORE_A_NORM.match(name):
            result[name] = deviation(before.states[name], value, found.states[name])
    assert result
    return result


RUNS = {"residual": RESIDUAL, "pix2pix": PIX2PIX, "resnet-50": FULL_RESIDUAL, "pix2pix-256": FULL_PIX2PIX}


@pytest.mark.parametrize("name", tiered(RUNS, ("residual",)))
def test_first_gradients_in_float32(name: str) -> None:
    check(replace(RUNS[name], steps=1), np.float32, FLOAT32_GRADIENTS, FIRST_MOMENTS)


@pytest.mark.parametrize("name", tiered(RUNS, ("residual", "pix2pix")))
def test_steps_in_float32(name: str) -> None:
    check(RUNS[name], np.float32, FLOAT32_PIX2PIX if name == "pix2pix-256" else FLOAT32, f"^(?!.*{FIRST_MOMENTS})")


@pytest.mark.parametrize("tolerance", [FLOAT64, FLOAT32, FLOAT32_PIX2PIX, FLOAT32_GRADIENTS])
def test_a_state_that_never_changes_is_beyond_every_tolerance(tolerance: Tolerance) -> None:
    run = replace(RESIDUAL, blocks=(1,), size=16, steps=1)
    before, after = expected(replace(run, steps=0)), expected(run)
    for name in (name for name in after.states if not name.endswith(".skipped_steps")):
        frozen = Outcome(after.losses, {**after.states, name: before.states[name]})
        found = deviations(before, after, frozen, "")
        assert [name for name, each in found.items() if not each <= tolerance.states] == [name]


@pytest.mark.parametrize("name", tiered(RUNS, ("residual",)))
def test_steps_in_float64(name: str) -> None:
    check(RUNS[name], np.float64, FLOAT64)
