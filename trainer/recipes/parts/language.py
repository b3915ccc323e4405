"""What language models share: the loss of the next tokens."""

from __future__ import annotations

from collections.abc import Callable

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.learner import Batch
from trainer.metrics import Mean, Predictions


def of_next_tokens(network: Callable[[Tensor], Tensor], batch: Batch) -> tuple[Mean, Predictions]:
    """The mean loss in nats per token of `network`, tokens [N, L] to logits [N, L, V], and predictions for metrics."""
    tokens, weight = batch["tokens"], batch["weight"]
    logits, labels = network(tokens[:, :-1]), tokens[:, 1:]
    rows = engine.reshape(logits, (-1, logits.shape[2]))
    losses = nn.cross_entropy(rows, engine.reshape(labels, (-1,)), reduction="none")
    loss = Mean(engine.mean(engine.reshape(losses, labels.shape), axis=1), weight)
    return loss, Predictions(logits=engine.permute_dims(logits, (0, 2, 1)), labels=labels, weight=weight)
