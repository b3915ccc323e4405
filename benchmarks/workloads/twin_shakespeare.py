"""The recipe shakespeare in plain PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch_language import LanguageTwin, vocabulary


class LanguageModel(nn.Module):
    """An LSTM between an embedding and logits."""

    def __init__(self, options: dict[str, Any], tokens: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, options["embedding"])
        between = options["dropout"] if options["layers"] > 1 else 0.0
        self.recurrent = nn.LSTM(
            options["embedding"], options["units"], options["layers"], batch_first=True, dropout=between
        )
        self.dropout = nn.Dropout(options["dropout"])
        self.logits = nn.Linear(options["units"], tokens)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        outputs, _ = self.recurrent(self.embedding(tokens))
        return self.logits(self.dropout(outputs))


class Twin(LanguageTwin):
    """A language model with an LSTM."""

    def __init__(self, config: dict[str, Any], weights: dict[str, torch.Tensor]) -> None:
        super().__init__(config)
        self.network = LanguageModel(self.options, vocabulary(weights))
