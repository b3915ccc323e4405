"""Optimizers follow PyTorch's trajectories in float64."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.learner import SGD, Adam, AdamW

OPTIMIZERS = {
    "sgd": lambda p: SGD(p, 0.1),
    "sgd_momentum": lambda p: SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "sgd_nesterov": lambda p: SGD(p, 0.1, momentum=0.8, nesterov=True),
    "sgd_clipped": lambda p: SGD(p, 0.1, gradient_clip_norm=0.5),
    "adam": lambda p: Adam(p, 0.01, betas=(0.8, 0.95), epsilon=1e-6, weight_decay=0.1),
    "adamw": lambda p: AdamW(p, 0.01, weight_decay=0.3),
}


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_trajectory_equals_torch(name, torch_reference):
    inputs = torch_reference["inputs"]
    parameter = nn.Parameter(inputs["start"], "p", engine.float64)
    optimizer = OPTIMIZERS[name]([parameter])
    for gradient in inputs["gradients"]:
        optimizer.minimize(engine.sum(parameter * engine.asarray(gradient)))
    np.testing.assert_allclose(parameter.numpy(), torch_reference["optimizers"][name], rtol=1e-9)
    assert optimizer.step_count.item() == len(inputs["gradients"])


def test_clipping_is_over_all_gradients_together():
    one, two = (nn.Parameter(np.zeros(()), name, engine.float64) for name in "ab")
    SGD({"a": one, "b": two}, 1.0, gradient_clip_norm=1.0).minimize(3 * one + 4 * two)
    np.testing.assert_allclose([one.item(), two.item()], [-0.6, -0.8], rtol=1e-5)


def test_state_names_for_checkpoints():
    assert set(Adam(nn.Linear(2, 1)).named_states()) == {
        "step_count", "skipped_steps", "weight.exp_avg", "weight.exp_avg_sq", "bias.exp_avg", "bias.exp_avg_sq",
    }  # fmt: skip


def test_mistakes_are_named():
    parameter = nn.Parameter(np.zeros(2), "p")
    with pytest.raises(TrainerError, match="scalar"):
        SGD([parameter], 0.1).minimize(parameter * 2)
    with pytest.raises(TrainerError, match="momentum"):
        SGD([parameter], 0.1, nesterov=True)
