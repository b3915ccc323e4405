"""Shared parts of language models: the data, the loss of the next tokens, and the texts that they write."""

from __future__ import annotations

from typing import Any

from trainer import engine
from trainer.datasets import Vocabulary, loaders, vocabulary_of
from trainer.engine import nn
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.learner.generation import Sampling
from trainer.metrics import Mean, Predictions


class LanguageTask(Task):
    """Predicts the next token of a text.

    A recipe's `build` creates `network`, then calls `super().build()`. The network maps tokens [N, L] to logits
    [N, L, V], and continues texts with `begin`, `read` and `capacity`, as defined by `inference.TextGeneration`.
    Options: `prompt` and `shown`, the beginning and the length of the text that is shown.
    """

    network: Any

    def data(self) -> DataSplits:
        splits = self.read_splits("tokens")
        vocabulary = vocabulary_of(splits["train"])
        assert vocabulary is not None
        self.unit, self.tokens = vocabulary.unit, vocabulary.tokens
        return DataSplits(**loaders(splits, self.config))

    def build(self) -> None:
        self.characters = Vocabulary(self.unit, self.tokens).characters()
        self.optimizer = self.optimizer_for(self.network)
        writer = self.pipeline()
        self.prompt = writer.vocabulary.encode(self.options.prompt).tolist()
        writer.check_capacity(len(self.prompt), self.options.shown)  # fails now, not after the first epoch

    def train_step(self, batch: Batch) -> dict[str, Mean]:
        loss, _ = self._next_tokens(batch)
        self.optimizer.minimize(loss.value)
        return {"loss": loss}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        loss, following = self._next_tokens(batch)
        return {"loss": loss, "next": following}

    def pipeline(self) -> inference.TextGeneration:
        network = self.network
        return inference.TextGeneration(
            Vocabulary(self.unit, self.tokens),
            begin=network.begin,
            step=lambda state, tokens: network.read(state, engine.expand_dims(tokens, axis=1)),
            read=network.read,
            network=network,
            capacity=network.capacity,
        )

    def samples(self, batch: Batch) -> list[Sample]:
        """A text that the model writes."""
        sampling = Sampling(temperature=0.8, seed=self.config.seed)
        return [self.pipeline().sample("text", self.prompt, self.options.shown, sampling)]

    def _next_tokens(self, batch: Batch) -> tuple[Mean, Predictions]:
        """The mean loss in nats per token, and predictions for metrics."""
        tokens, weight = batch["tokens"], batch["weight"]
        logits, labels = self.network(tokens[:, :-1]), tokens[:, 1:]
        rows = engine.reshape(logits, (-1, logits.shape[2]))
        losses = nn.cross_entropy(rows, engine.reshape(labels, (-1,)), reduction="none")
        loss = Mean(engine.mean(engine.reshape(losses, labels.shape), axis=1), weight)
        counts = engine.take(engine.asarray(self.characters), labels)
        by_class = engine.permute_dims(logits, (0, 2, 1))
        return loss, Predictions(logits=by_class, labels=labels, characters=counts, weight=weight)
