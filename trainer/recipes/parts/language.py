"""What language models share: the loss of the next tokens, and the texts that are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainer import engine
from trainer.datasets import Vocabulary
from trainer.engine import Tensor, nn
from trainer.learner import Batch, Sample
from trainer.learner.generation import Sampling, generate
from trainer.metrics import Mean, Predictions


def of_next_tokens(network: Callable[[Tensor], Tensor], batch: Batch) -> tuple[Mean, Predictions]:
    """The mean loss in nats per token of `network`, tokens [N, L] to logits [N, L, V], and predictions for metrics."""
    tokens, weight = batch["tokens"], batch["weight"]
    logits, labels = network(tokens[:, :-1]), tokens[:, 1:]
    rows = engine.reshape(logits, (-1, logits.shape[2]))
    losses = nn.cross_entropy(rows, engine.reshape(labels, (-1,)), reduction="none")
    loss = Mean(engine.mean(engine.reshape(losses, labels.shape), axis=1), weight)
    return loss, Predictions(logits=engine.permute_dims(logits, (0, 2, 1)), labels=labels, weight=weight)


def written(
    vocabulary: Vocabulary, begin: Callable[[int], Any], step: Callable[[Any, Tensor], tuple[Any, Tensor]], prompt: str,
    tokens: int, seed: int,
) -> list[Sample]:  # fmt: skip
    """A text that continues `prompt`: drawn with temperature 0.8, the same numbers every time."""
    traced = engine.trace(step)

    def stepped(state: Any, given: np.ndarray) -> tuple[Any, np.ndarray]:
        state, logits = traced(state, engine.asarray(given))
        return state, logits.numpy().astype(np.float64)

    sampling = Sampling(temperature=0.8, seed=seed)
    found = generate(stepped, begin(1), vocabulary.encode(prompt).tolist(), tokens, sampling=sampling)
    return [Sample("text", text=f"[{prompt}]{vocabulary.decode(list(found))}")]
