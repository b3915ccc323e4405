"""The recipe transformer in plain PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch_language import LanguageTwin, vocabulary

BASE = 10_000.0


class Block(nn.TransformerEncoderLayer):
    """PyTorch's pre-norm encoder layer, with its fused causal attention and rotary positions."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__(width, heads, 4 * width, dropout, "gelu", batch_first=True, norm_first=True)
        self.heads, self.share = heads, dropout

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout1(self.attention(self.norm1(x), cos, sin))
        return x + self.dropout2(self.linear2(self.dropout(F.gelu(self.linear1(self.norm2(x))))))

    def attention(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        projected = F.linear(x, self.self_attn.in_proj_weight, self.self_attn.in_proj_bias)
        query, key, value = projected.view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        share = self.share if self.training else 0.0
        y = F.scaled_dot_product_attention(rotated(query, cos, sin), rotated(key, cos, sin), value, dropout_p=share,
                                           is_causal=True)  # fmt: skip
        return self.self_attn.out_proj(y.transpose(1, 2).reshape(rows, length, width))


class LanguageModel(nn.Module):
    """Blocks between an embedding and logits."""

    def __init__(self, options: dict[str, Any], tokens: int) -> None:
        super().__init__()
        width, self.pair_count = options["width"], options["width"] // options["heads"] // 2
        self.embedding, self.dropout = nn.Embedding(tokens, width), nn.Dropout(options["dropout"])
        self.blocks = nn.ModuleList(Block(width, options["heads"], options["dropout"]) for _ in range(options["depth"]))
        self.norm, self.logits = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.embedding(tokens))
        rates = BASE ** (-torch.arange(self.pair_count, dtype=torch.float64) / self.pair_count)
        angles = torch.outer(torch.arange(tokens.shape[1]), rates)
        cos, sin = (each.to(x.dtype) for each in (angles.cos(), angles.sin()))
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.logits(self.norm(x))


class Twin(LanguageTwin):
    """A decoder with rotary positions."""

    def __init__(self, config: dict[str, Any], weights: dict[str, torch.Tensor]) -> None:
        super().__init__(config)
        self.network = LanguageModel(self.options, vocabulary(weights))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Returns x [N, heads, L, D] with elements i and i + D / 2 rotated by an angle."""
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)
