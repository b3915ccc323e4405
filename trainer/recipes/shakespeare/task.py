"""Models a text letter by letter with long short-term memory (Hochreiter and Schmidhuber 1997; Graves 2013).

Every window of the text is predicted without the text before it: the states start at zero.
"""

from __future__ import annotations

from typing import Any

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.recipes.parts.language import LanguageTask

from .options import Options

States = tuple[Tensor, Tensor]


class Shakespeare(LanguageTask):
    """Predicts the next token of a text."""

    options: Options
    head = ("network.embedding.*", "network.logits.*")

    def build(self) -> None:
        self.network = LanguageModel(self.options, len(self.tokens))
        super().build()


class LanguageModel(nn.Module):
    """Tokens [N, L] to logits [N, L, V] of the next ones."""

    capacity = None
    """No limit: the states don't grow with the text."""

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

    def read(self, states: States, tokens: Tensor) -> tuple[States, Tensor]:
        """The states after `tokens` [N, T], and the logits [N, V] of the token that follows."""
        outputs, states = self.recurrent(self.embedding(tokens), by_rows(states))
        return by_rows(states), self.logits(outputs[:, -1])


def by_rows(states: Any) -> States:
    """States [layers, N, units] as [N, layers, units], and vice versa."""
    return tuple(engine.permute_dims(state, (1, 0, 2)) for state in states)  # type: ignore[return-value]
