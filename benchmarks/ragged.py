"""Ragged batches: how often a step is compiled for 200 batches of 200 different lengths, and what their padding costs.

python benchmarks/ragged.py [ragged_compilations …] [--json] [--rounds N]

The data is 3,200 texts of 20 to 219 characters, in 200 batches of 16. They are sorted by length within windows of 50
batches; the batches are shuffled and padded to five lengths that the loader chooses. The step is a GRU's training step.
The peer of `ragged_time` is an epoch of equally many texts that all have the mean length and need no padding.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
from harness import Figure, run_figures

from trainer import engine
from trainer.configs import config_from
from trainer.datasets import Loader, loaders
from trainer.engine import int32, nn
from trainer.learner import SGD

BATCH, BATCHES = 16, 200
LENGTHS = np.arange(20, 20 + BATCHES)
TOKENS, WIDTH = 64, 64
MOST_COMPILATIONS, MOST_WORK = 5, 1.3


class Texts:
    """Texts of given lengths; the loader recognizes texts by their vocabulary."""

    class_names = ()
    is_in_memory = True
    vocabulary = ()

    def __init__(self, sizes: np.ndarray) -> None:
        self.sizes = sizes
        self._tokens = np.random.default_rng(0).integers(1, TOKENS, sizes.max()).astype(np.int32)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        return {"tokens": self._tokens[: self.sizes[index]]}

    def source(self, index: int) -> str:
        return f"text {index}"


def loader_of(sizes: np.ndarray) -> Loader:
    data = {"batch_size": BATCH, "size_window": 50, "workers": 0}
    config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}})
    return loaders({"train": Texts(sizes)}, config)["train"]


class Net(nn.Module):
    """Next-token prediction."""

    def __init__(self) -> None:
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, TOKENS)

    def loss(self, tokens: engine.Tensor, lengths: engine.Tensor) -> engine.Tensor:
        """The mean loss of the tokens before the padding."""
        outputs, _ = self.rnn(self.embedding(tokens[:, :-1]), lengths=lengths - 1)
        logits = engine.permute_dims(self.head(outputs), (0, 2, 1))
        places = engine.reshape(engine.arange(tokens.shape[1] - 1, dtype=int32), (1, -1))
        is_token = (places < engine.reshape(lengths.astype(int32) - 1, (-1, 1))).astype(logits.dtype)
        losses = nn.cross_entropy(logits, tokens[:, 1:], reduction="none") * is_token
        return engine.sum(losses) / engine.sum(is_token)


class Epochs:
    """Epochs of training on texts of given lengths."""

    def __init__(self, sizes: np.ndarray) -> None:
        self.loader = loader_of(sizes)
        self.net = Net()
        self._optimizer = SGD(self.net, 0.1)
        self.step: Any = engine.trace(self._train)
        self._epoch = 0

    def _train(self, tokens: engine.Tensor, lengths: engine.Tensor) -> engine.Tensor:
        loss = self.net.loss(tokens, lengths)
        self._optimizer.minimize(loss)
        return loss

    def run(self) -> float:
        """Trains for an epoch; returns the seconds of its steps."""
        seconds, loss = 0.0, None
        with self.loader.epoch(self._epoch) as batches:
            for batch in batches:
                started = time.perf_counter()
                loss = self.step(batch["tokens"], batch["length"])
                float(loss)
                seconds += time.perf_counter() - started
        self._epoch += 1
        return seconds


@functools.cache
def ragged() -> Epochs:
    """Training on the texts of 200 lengths, after one epoch."""
    epochs = Epochs(np.random.default_rng(0).permutation(np.repeat(LENGTHS, BATCH)))
    epochs.run()
    return epochs


@functools.cache
def equal() -> Epochs:
    """Training on equally many texts that all have the mean length, after one epoch."""
    epochs = Epochs(np.full(BATCH * BATCHES, round(LENGTHS.mean())))
    epochs.run()
    return epochs


def compilations() -> float:
    epochs = ragged()
    epochs.run()
    return len(epochs.step.programs)


def work() -> float:
    """The number of tokens with padding, divided by the number without."""
    loader = ragged().loader
    batches = [loader.batch(0, step) for step in range(loader.steps_per_epoch)]
    return sum(batch["tokens"].size for batch in batches) / sum(int(batch["length"].sum()) for batch in batches)


FIGURES = [
    Figure("ragged_compilations", ours=compilations, bar=MOST_COMPILATIONS, unit="programs", rounds=1, is_timing=False),
    Figure("ragged_work", ours=work, bar=MOST_WORK, unit="x", rounds=1, is_timing=False),
    Figure(
        "ragged_time", ours=lambda: ragged().run(), peer=lambda python: equal().run(), bar=1 / MOST_WORK, unit="s",
        needs_peer_python=False, rounds=3,
    ),
]  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
