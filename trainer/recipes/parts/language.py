"""What language models share: the loss of the next tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.learner import Batch
from trainer.metrics import Mean, Predictions


def of_next_tokens(
    network: Callable[[Tensor], Tensor], batch: Batch, characters: np.ndarray
) -> tuple[Mean, Predictions]:
    """The mean loss in nats per token of `network`, tokens [N, L] to logits [N, L, V], and predictions for metrics.

    `characters` [V] has the number of characters of each token, as of `Vocabulary.characters`.
    """
    tokens, weight = batch["tokens"], batch["weight"]
    logits, labels = network(tokens[:, :-1]), tokens[:, 1:]
    rows = engine.reshape(logits, (-1, logits.shape[2]))
    losses = nn.cross_entropy(rows, engine.reshape(labels, (-1,)), reduction="none")
    loss = Mean(engine.mean(engine.reshape(losses, labels.shape), axis=1), weight)
    counts = engine.take(engine.asarray(characters), labels)
    by_class = engine.permute_dims(logits, (0, 2, 1))
    return loss, Predictions(logits=by_class, labels=labels, characters=counts, weight=weight)
