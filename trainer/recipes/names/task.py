"""Classifies short texts, letter by letter, with gated recurrent units (Cho et al. 2014) in both directions.

Names have different lengths: batches are padded to a few lengths, and steps past the end of a name have no effect.
"""

from __future__ import annotations

from trainer import engine
from trainer.datasets import Vocabulary, loaders, vocabulary_of
from trainer.engine import Tensor, nn
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.metrics import Mean, Predictions

from .options import DECLARATION, Options

SHOWN = 24


class Names(Task):
    """Predicts the class of a text."""

    options: Options
    head = ("network.letters.*", "network.classes.*")

    def data(self) -> DataSplits:
        splits = self.read_splits(*DECLARATION.fields)
        self.class_names = splits["train"].class_names
        vocabulary = vocabulary_of(splits["train"])
        assert vocabulary is not None
        self.unit, self.tokens = vocabulary.unit, vocabulary.tokens
        made = loaders(splits, self.config)
        self.token_lengths = made["train"].token_lengths
        return DataSplits(**made)

    def build(self) -> None:
        self.network = Classifier(self.options, len(self.tokens), len(self.class_names))
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean]:
        logits = self.network(batch["tokens"], batch["length"])
        losses = nn.cross_entropy(logits, batch["label"], label_smoothing=self.options.smoothing, reduction="none")
        loss = Mean(losses, batch["weight"])
        self.optimizer.minimize(loss.value)
        return {"loss": loss}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        logits = self.network(batch["tokens"], batch["length"])
        losses = nn.cross_entropy(logits, batch["label"], reduction="none")
        classes = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
        return {"loss": Mean(losses, batch["weight"]), "classes": classes}

    def pipeline(self) -> inference.TextClassification:
        return inference.TextClassification(
            tuple(self.class_names),
            Vocabulary(self.unit, self.tokens),
            network=lambda tokens, lengths: {"logits": self.network(tokens, lengths)},
            lengths=self.token_lengths,
        )

    def samples(self, batch: Batch) -> list[Sample]:
        """Names from the whole batch, one per line, with the predicted class and, if it differs, the true class."""
        logits = self.network(batch["tokens"], batch["length"]).numpy()
        lines, vocabulary = [], Vocabulary(self.unit, self.tokens)
        rows = list(zip(batch["tokens"].numpy(), batch["length"].numpy(), logits, batch["label"].numpy(), strict=True))
        for tokens, length, scores, label in rows[:: -(-len(rows) // SHOWN)]:  # a split is ordered by class
            name = vocabulary.decode(tokens[:length])
            found, right = self.class_names[int(scores.argmax())], self.class_names[int(label)]
            lines.append(f"{name}: predicted {found}" + ("" if found == right else f", true {right}"))
        return [Sample("names", text="\n".join(lines))]


class Classifier(nn.Module):
    """Tokens [N, L] of texts of `lengths` [N] to logits [N, classes]."""

    def __init__(self, options: Options, tokens: int, classes: int) -> None:
        self.letters = nn.Embedding(tokens, options.embedding, padding_idx=0)
        between = options.dropout if options.layers > 1 else 0.0
        self.recurrent = nn.GRU(
            options.embedding, options.units, options.layers, batch_first=True, bidirectional=True, dropout=between
        )
        self.dropout = nn.Dropout(options.dropout)
        self.classes = nn.Linear(4 * options.units, classes)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        outputs, _ = self.recurrent(self.dropout(self.letters(tokens)), lengths=lengths)
        is_letter = engine.expand_dims(engine.arange(tokens.shape[1]) < engine.expand_dims(lengths, axis=1), axis=2)
        total = engine.sum(engine.where(is_letter, outputs, 0.0), axis=1)
        mean = total / engine.expand_dims(engine.maximum(lengths, 1), axis=1).astype(total.dtype)
        largest = engine.max(engine.where(is_letter, outputs, -1.0), axis=1)  # outputs lie between -1 and 1
        return self.classes(self.dropout(engine.concat([mean, largest], axis=1)))
