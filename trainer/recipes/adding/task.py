"""Adds two numbers at any positions of a long sequence (the adding problem, Hochreiter and Schmidhuber 1997).

The network is an IRNN (Le, Jaitly and Hinton, "A simple way to initialize recurrent networks of rectified linear
units", 2015): ReLUs whose recurrent weights start as the identity, so that at first every state is preserved and
gradients pass through 200 steps without vanishing.
"""

from __future__ import annotations

import numpy as np

from trainer import engine
from trainer.datasets import ArrayDataset, loaders
from trainer.engine import Tensor, nn
from trainer.learner import Batch, DataSplits, Sample, Task
from trainer.metrics import Mean, Predictions

from .options import DECLARATION as DECLARATION
from .options import Options

SHOWN = 5


class Adding(Task):
    """Predicts the sum of the two marked numbers of a sequence."""

    options: Options

    def data(self) -> DataSplits:
        options, seed = self.options, self.config.seed
        counts = {"train": options.sequences, "valid": options.held_out, "test": options.held_out}
        splits = {
            name: ArrayDataset(sequences(count, options.length, seed=(seed, number)), name=name)
            for number, (name, count) in enumerate(counts.items())
        }
        return DataSplits(**loaders(splits, self.config))

    def build(self) -> None:
        self.network = IRNN(self.options.units)
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean]:
        loss, _ = self.measure(batch)
        self.optimizer.minimize(loss.value)
        return {"loss": loss}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        loss, sums = self.measure(batch)
        return {"loss": loss, "sums": sums}

    def measure(self, batch: Batch) -> tuple[Mean, Predictions]:
        """The mean squared error of a batch, and the predictions for metrics."""
        predicted = self.network(batch["sequence"])
        errors = (predicted - batch["value"]) ** 2
        sums = Predictions(predicted=predicted, target=batch["value"], weight=batch["weight"])
        return Mean(errors, batch["weight"]), sums

    def samples(self, batch: Batch) -> list[Sample]:
        """The first sequences as pictures: a row of numbers above a row of marks; captions show the sums."""
        found = self.network(batch["sequence"]).numpy()[:SHOWN]
        pairs = zip(batch["sequence"].numpy(), found, batch["value"].numpy(), strict=False)
        return [
            Sample(f"sequence-{number}", picture(sequence), f"predicted {predicted:.3f}, true {true:.3f}")
            for number, (sequence, predicted, true) in enumerate(pairs, 1)
        ]


class IRNN(nn.Module):
    """[N, T, 2] to [N]: a linear function of the last state of a recurrent network of ReLUs."""

    def __init__(self, units: int) -> None:
        self.inner, self.sum = nn.Linear(2, units), nn.Linear(units, 1)
        for layer in (self.inner, self.sum):
            layer.weight = nn.declare(layer.named_shapes()["weight"], nn.initializers.normal(std=0.001))
            layer.bias = nn.declare(layer.named_shapes()["bias"], nn.initializers.zeros)
        self.recurrent = nn.declare((units, units), lambda generator, shape: np.eye(units))

    def forward(self, x: Tensor) -> Tensor:
        steps = self.inner(engine.permute_dims(x, (1, 0, 2)))  # one matrix product for all steps

        def step(state: Tensor, given: Tensor) -> tuple[Tensor, None]:
            return nn.functional.relu(given + state @ self.recurrent), None

        last, _ = engine.scan(step, engine.zeros(steps.shape[1:]), steps)
        return self.sum(last)[:, 0]


def sequences(count: int, length: int, *, seed: tuple[int, int]) -> dict[str, np.ndarray]:
    """Numbers from 0 to 1 next to marks, [N, T, 2]: one mark in each half; and the sums of the marked numbers, [N]."""
    random = np.random.default_rng(seed)
    numbers, marks = random.random((count, length), np.float32), np.zeros((count, length), np.float32)
    rows, half = np.arange(count), length // 2
    marks[rows, random.integers(0, half, count)] = 1
    marks[rows, random.integers(half, length, count)] = 1
    return {"sequence": np.stack([numbers, marks], axis=2), "value": (numbers * marks).sum(axis=1, dtype=np.float32)}


def picture(sequence: np.ndarray) -> np.ndarray:
    """Grayscale [H, W] of a sequence [T, 2]."""
    pixels = (255 * sequence.T).astype(np.uint8)
    return np.repeat(np.repeat(pixels, 12, axis=0), 3, axis=1)
