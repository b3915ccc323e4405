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
    count, length = tokens.shape[0], tokens.shape[1] - 1
    logits = engine.reshape(network(tokens[:, :-1]), (count * length, -1))
    labels = engine.reshape(tokens[:, 1:], (-1,))
    weights = engine.reshape(engine.broadcast_to(engine.expand_dims(weight, axis=1), (count, length)), (-1,))
    losses = nn.cross_entropy(logits, labels, reduction="none")
    return Mean(losses, weights), Predictions(logits=logits, labels=labels, weight=weights)


def written(
    vocabulary: Vocabulary, begin: Callable[[int], Any], step: Callable[[Any, Tensor], tuple[Any, Tensor]], prompt: str,
    tokens: int, seed: int,
) -> list[Sample]:  # fmt: skip
    """A text that goes on from `prompt`: drawn with temperature 0.8, the same numbers every time."""
    traced = engine.trace(step)

    def stepped(state: Any, given: np.ndarray) -> tuple[Any, np.ndarray]:
        state, logits = traced(state, given)
        return state, logits.numpy().astype(np.float64)

    sampling = Sampling(temperature=0.8, seed=seed)
    found = generate(stepped, begin(1), vocabulary.encode(prompt).tolist(), tokens, sampling=sampling)
    return [Sample("text", text=f"[{prompt}]{vocabulary.decode(list(found))}")]
