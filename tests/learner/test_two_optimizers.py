"""Two optimizers in one step: a small generative adversarial network, traced once, whichever side is frozen."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.configs import config_from
from trainer.datasets import ArrayDataset, Loader
from trainer.engine import nn
from trainer.learner import Batch, DataSplits, Hook, Learner, Task
from trainer.metrics import Mean, Measured

STEPS, FROZEN_UNTIL = 12, 5
TRACES: list[int] = []
"""Grows whenever the step's Python code is run."""


class Gan(Task):
    """A generator of points and a discriminator (Goodfellow et al. 2014), each with an optimizer of its own."""

    def data(self) -> DataSplits:
        generator = np.random.default_rng(0)
        points = generator.normal(size=(32, 2)).astype(np.float32) + 2
        noise = generator.normal(size=(32, 3)).astype(np.float32)
        return DataSplits(train=Loader(ArrayDataset({"point": points, "noise": noise}), 8))

    def build(self) -> None:
        self.generator = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        self.generator_optimizer = self.optimizer_for(self.generator, "generator")
        self.discriminator_optimizer = self.optimizer_for(self.discriminator, "discriminator")

    def train_step(self, batch: Batch) -> dict[str, Measured]:
        TRACES.append(1)
        fake = self.generator(batch["noise"])
        real_loss = engine.mean(nn.functional.softplus(-self.discriminator(batch["point"])))
        fake_loss = engine.mean(nn.functional.softplus(self.discriminator(fake)))
        self.discriminator_optimizer.minimize(real_loss + fake_loss)
        # From here on the discriminator has its new weights; only the generator's gradients are taken.
        generator_loss = engine.mean(nn.functional.softplus(-self.discriminator(fake)))
        self.generator_optimizer.minimize(generator_loss)
        return {"discriminator": Mean(real_loss + fake_loss), "generator": Mean(generator_loss)}


class Weights(Hook):
    """The weights of both networks after each step."""

    is_inline = True

    def __init__(self) -> None:
        self.seen: list[dict[str, np.ndarray]] = []

    def on_start(self, training: Any, moment: Any) -> None:
        self.note(training)

    def after_step(self, training: Any, moment: Any) -> None:
        self.note(training)

    def note(self, training: Any) -> None:
        modules = training.parts.modules
        self.seen.append({f"{name}.{key}": value.copy() for name, module in modules.items()
                          for key, value in module.state_dict().items()})  # fmt: skip


def train(device: str, groups: list[dict[str, Any]]) -> tuple[list[dict[str, np.ndarray]], Learner]:
    config = config_from({
        "device": device, "autotune": {"mode": "off"}, "train": {"steps": STEPS, "log_every_steps": 1},
        "optimizers": {
            "generator": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.5},
            "discriminator": {"name": "sgd", "learning_rate": 0.2, "groups": groups},
        },
    })  # fmt: skip
    weights = Weights()
    learner = Learner(Gan, config, hooks=[weights])
    learner.run().check()
    return weights.seen, learner


def forward(weights: dict[str, np.ndarray], network: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hidden values and outputs."""
    hidden = x @ weights[f"{network}.0.weight"].T + weights[f"{network}.0.bias"]
    out = np.maximum(hidden, 0) @ weights[f"{network}.2.weight"].T + weights[f"{network}.2.bias"]
    return hidden, out


def backward(
    weights: dict[str, np.ndarray], network: str, x: np.ndarray, hidden: np.ndarray, slope: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Gradients by name, and that of the input, for the slope of the loss by the output."""
    inner = slope @ weights[f"{network}.2.weight"] * (hidden > 0)
    gradients = {"2.weight": slope.T @ np.maximum(hidden, 0), "2.bias": slope.sum(0),
                 "0.weight": inner.T @ x, "0.bias": inner.sum(0)}  # fmt: skip
    return ({f"{network}.{name}": value for name, value in gradients.items()},
            inner @ weights[f"{network}.0.weight"])  # fmt: skip


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def plain_steps(start: dict[str, np.ndarray], batches: list[Any], frozen_until: int) -> list[dict[str, np.ndarray]]:
    """The same training in NumPy, float64, with the gradients written out."""
    weights = {name: value.astype(np.float64) for name, value in start.items()}
    velocity: dict[str, Any] = {}
    seen = []
    for step, batch in enumerate(batches):
        noise, real = batch["noise"].astype(np.float64), batch["point"].astype(np.float64)
        inside, fake = forward(weights, "generator", noise)
        if step >= frozen_until:
            total: dict[str, Any] = {}
            for x, sign in ((real, -1), (fake, 1)):
                hidden, out = forward(weights, "discriminator", x)
                slopes, _ = backward(weights, "discriminator", x, hidden, sign * sigmoid(sign * out) / len(x))
                total = {name: total.get(name, 0.0) + value for name, value in slopes.items()}
            for name, value in total.items():
                weights[name] = weights[name] - 0.2 * value
        hidden, out = forward(weights, "discriminator", fake)
        _, to_fake = backward(weights, "discriminator", fake, hidden, -sigmoid(-out) / len(fake))
        slopes, _ = backward(weights, "generator", noise, inside, to_fake)
        for name, value in slopes.items():
            velocity[name] = 0.5 * velocity.get(name, 0.0) + value
            weights[name] = weights[name] - 0.1 * velocity[name]
        seen.append(dict(weights))
    return seen


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("frozen_until", [0, FROZEN_UNTIL])
def test_a_gan_step_is_one_program_even_while_the_discriminator_is_frozen(device: str, frozen_until: int) -> None:
    TRACES.clear()
    groups = [{"match": "*", "unfreeze_at_step": frozen_until}] if frozen_until else []
    seen, learner = train(device, groups)
    assert learner.training is not None
    assert len(TRACES) == 1 and len(learner.training.traced_step().step.programs) == 1
    loader = learner.training.splits.train
    batches = [loader.batch(*divmod(step, loader.steps_per_epoch)) for step in range(STEPS)]
    expected = plain_steps(seen[0], batches, frozen_until)
    for step in range(STEPS):
        for name, value in expected[step].items():
            np.testing.assert_allclose(
                seen[step + 1][name], value, rtol=1e-4, atol=1e-5, err_msg=f"{name}, step {step + 1}"
            )
    frozen = [np.array_equal(before["discriminator.0.weight"], after["discriminator.0.weight"])
              for before, after in pairwise(seen)]  # fmt: skip
    assert frozen == [step < frozen_until for step in range(STEPS)]


def test_a_side_that_is_frozen_for_good_adds_no_program_either() -> None:
    """All but one bias of the discriminator stay; the generator trains against it."""
    TRACES.clear()
    seen, learner = train("reference", [{"match": "0.*", "frozen": True}, {"match": "2.weight", "frozen": True}])
    assert learner.training is not None
    assert len(TRACES) == 1 and len(learner.training.traced_step().step.programs) == 1
    changed = {name for name in seen[0] if not np.array_equal(seen[0][name], seen[-1][name])}
    assert changed == {name for name in seen[0] if name.startswith("generator")} | {"discriminator.2.bias"}
