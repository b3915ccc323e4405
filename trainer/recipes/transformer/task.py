"""Models a text letter by letter with a transformer (Vaswani et al. 2017), as GPT does: pre-norm blocks with attention
to earlier tokens, and rotary positions (Su et al. 2021).
"""

from __future__ import annotations

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.recipes.parts.language import LanguageTask

from .options import Options

State = dict[str, Tensor]


class Transformer(LanguageTask):
    """Predicts the next token of a text."""

    options: Options
    head = ("network.embedding.*", "network.logits.*")

    def build(self) -> None:
        self.network = LanguageModel(self.options, len(self.tokens))
        super().build()


class LanguageModel(nn.Module):
    """Tokens [N, L] to logits [N, L, V] of the next ones."""

    def __init__(self, options: Options, tokens: int) -> None:
        width, self.heads, self.capacity = options.width, options.heads, options.context
        self.head_width = width // options.heads
        self.embedding, self.dropout = nn.Embedding(tokens, width), nn.Dropout(options.dropout)
        self.embedding.weight = nn.declare((tokens, width), nn.initializers.normal(std=0.02))
        self.blocks = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(
                    width, options.heads, 4 * width, dropout=options.dropout, activation="gelu", batch_first=True,
                    norm_first=True, rotary=nn.RotaryEmbedding(self.head_width, options.context),
                )
                for _ in range(options.depth)
            ]
        )  # fmt: skip
        self.norm, self.logits = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.dropout(self.embedding(tokens))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.logits(self.norm(x))

    def begin(self, rows: int) -> State:
        """Empty key-value caches of `capacity` tokens for every block, and the number of tokens in them."""
        shape = (rows, len(self.blocks), self.heads, self.capacity, self.head_width)
        length = engine.zeros((rows,), dtype=engine.int32)
        return {"keys": engine.zeros(shape), "values": engine.zeros(shape), "length": length}

    def read(self, state: State, tokens: Tensor) -> tuple[State, Tensor]:
        """The state after `tokens` [N, T], and the logits [N, V] of the token that follows."""
        x, length = self.embedding(tokens), state["length"]
        caches = [nn.KeyValues(state["keys"][:, n], state["values"][:, n], length) for n in range(len(self.blocks))]
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, cache=cache)
        keys, values = (engine.stack([getattr(cache, part) for cache in caches], axis=1) for part in ("key", "value"))
        return {"keys": keys, "values": values, "length": caches[0].length}, self.logits(self.norm(x[:, -1]))
