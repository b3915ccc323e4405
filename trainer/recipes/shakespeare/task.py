"""Models a text letter by letter with long short-term memory (Hochreiter and Schmidhuber 1997; Graves 2013).

Every window of the text is predicted from its own beginning: the states start at zero.
"""

from __future__ import annotations

from typing import Any

from trainer import engine
from trainer.datasets import Vocabulary, loaders
from trainer.datasets.item_properties import vocabulary_of
from trainer.engine import Tensor, nn
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.learner.generation import Sampling
from trainer.metrics import Mean, Predictions
from trainer.recipes.parts.language import of_next_tokens

from .options import DECLARATION, Options

States = tuple[Tensor, Tensor]


class Shakespeare(Task):
    """Predicts the next token of a text."""

    options: Options
    head = ("network.embedding.*", "network.logits.*")

    def data(self) -> DataSplits:
        splits = self.read_splits(*DECLARATION.fields)
        vocabulary = vocabulary_of(splits["train"])
        assert vocabulary is not None
        self.unit, self.tokens = vocabulary.unit, vocabulary.tokens
        return DataSplits(**loaders(splits, self.config))

    def build(self) -> None:
        self.network = LanguageModel(self.options, len(self.tokens))
        self.characters = Vocabulary(self.unit, self.tokens).characters()
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean]:
        loss, _ = of_next_tokens(self.network, batch, self.characters)
        self.optimizer.minimize(loss.value)
        return {"loss": loss}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        loss, following = of_next_tokens(self.network, batch, self.characters)
        return {"loss": loss, "next": following}

    def pipeline(self) -> inference.TextGeneration:
        return inference.TextGeneration(
            Vocabulary(self.unit, self.tokens), begin=self.network.begin, step=self.network.step
        )

    def samples(self, batch: Batch) -> list[Sample]:
        """A text that the model writes."""
        writer, sampling = self.pipeline(), Sampling(temperature=0.8, seed=self.config.seed)
        prompt = writer.vocabulary.encode(self.options.prompt).tolist()
        return [writer.sample("text", prompt, self.options.shown, sampling)]


class LanguageModel(nn.Module):
    """Tokens [N, L] to logits [N, L, V] of the next ones."""

    def __init__(self, options: Options, tokens: int) -> None:
        self.embedding = nn.Embedding(tokens, options.embedding)
        between = options.dropout if options.layers > 1 else 0.0
        self.recurrent = nn.LSTM(options.embedding, options.units, options.layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(options.dropout)
        self.logits = nn.Linear(options.units, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        outputs, _ = self.recurrent(self.embedding(tokens))
        return self.logits(self.dropout(outputs))

    def begin(self, rows: int) -> States:
        """The states before the first token."""
        shape = (self.recurrent.num_layers, rows, self.recurrent.hidden_size)
        return by_rows((engine.zeros(shape), engine.zeros(shape)))

    def step(self, states: States, tokens: Tensor) -> tuple[States, Tensor]:
        """The states after `tokens` [N], and the logits [N, V] of the next ones."""
        outputs, states = self.recurrent(self.embedding(engine.expand_dims(tokens, axis=1)), by_rows(states))
        return by_rows(states), self.logits(outputs[:, 0])


def by_rows(states: Any) -> States:
    """States [layers, N, units] as [N, layers, units], and the other way round."""
    return tuple(engine.permute_dims(state, (1, 0, 2)) for state in states)  # type: ignore[return-value]
