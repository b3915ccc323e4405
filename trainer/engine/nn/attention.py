"""Multi-head attention with torch's parameters, plus options for decoders."""

from __future__ import annotations

import math

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.nn import initializers
from trainer.engine.nn.dot_product_attention import scaled_dot_product_attention
from trainer.engine.nn.key_value_cache import KeyValues
from trainer.engine.nn.linear import Linear
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare
from trainer.engine.nn.positions import RotaryEmbedding
from trainer.engine.tensor import Tensor


class MultiheadAttention(Module):
    """Multi-head attention with input and output projections (Vaswani et al. 2017) and torch's parameters.

    in_proj_weight [E + 2·K, E] and in_proj_bias hold the projections of queries, keys and values, where E is embed_dim
    and K = E · num_kv_heads / num_heads. If `kdim` or `vdim` is not E, q_proj_weight, k_proj_weight and v_proj_weight
    replace in_proj_weight.

    Args:
        dropout: probability that an attention weight is zeroed in training.
        kdim, vdim: widths of `key` and `value`, E by default.
        batch_first: sequences are [B, T, E]; otherwise [T, B, E].
        num_kv_heads: heads of keys and values, each shared by num_heads / num_kv_heads query heads (grouped-query
            attention, Ainslie et al. 2023); num_heads by default.
        rotary: rotary position embedding of queries and keys.
        window_size: see `functional.scaled_dot_product_attention`.

    Raises:
        TrainerError: embed_dim is not divisible by num_heads, or num_heads by num_kv_heads.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, *, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, num_kv_heads: int | None = None,
        rotary: RotaryEmbedding | None = None, window_size: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        groups = num_heads if num_kv_heads is None else num_kv_heads
        if min(embed_dim, num_heads, groups) < 1 or embed_dim % num_heads or num_heads % groups:
            found = f"embed_dim {embed_dim}, num_heads {num_heads}, num_kv_heads {groups}"
            raise TrainerError("MultiheadAttention's heads do not divide its width", found=found,
                               expected="embed_dim divisible by num_heads, and num_heads by num_kv_heads")  # fmt: skip
        if not 0 <= dropout < 1:
            raise TrainerError("a dropout probability lies in [0, 1)", found=dropout)
        self.embed_dim, self.num_heads, self.num_kv_heads = embed_dim, num_heads, groups
        self.dropout, self.batch_first, self.window_size = dropout, batch_first, window_size
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.head_dim = embed_dim // num_heads
        narrow = groups * self.head_dim
        self.sizes = (embed_dim, narrow, narrow)
        draw = initializers.xavier_uniform()
        self.is_packed = self.kdim == self.vdim == embed_dim
        if self.is_packed:
            self.in_proj_weight = declare((sum(self.sizes), embed_dim), draw)
        else:
            self.q_proj_weight = declare((embed_dim, embed_dim), draw)
            self.k_proj_weight = declare((narrow, self.kdim), draw)
            self.v_proj_weight = declare((narrow, self.vdim), draw)
        self.in_proj_bias = declare((sum(self.sizes),), initializers.zeros) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = declare((embed_dim,), initializers.zeros)
        self.rotary = rotary

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None,
        key_padding_mask: Tensor | None = None, need_weights: bool = False, attn_mask: Tensor | None = None,
        is_causal: bool = False, *, average_attn_weights: bool = True, cache: KeyValues | None = None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Attends from `query` [B, M, E] to `key` [B, N, kdim] and `value` [B, N, vdim], or from [M, B, E] and so on.

        Args:
            key, value: default to the query and the key.
            key_padding_mask: [B, N]. Boolean: True masks a key for all queries, as in torch. Floating-point: added.
            need_weights: whether to materialize and return the weights. False by default, unlike in torch.
            attn_mask: [M, N], [B·H, M, N] or [B, H, M, N]. Boolean: True masks a pair, as in torch (the opposite of
                `scaled_dot_product_attention`). Floating-point: added to the scores.
            is_causal: a query attends only to keys up to its own position.
            average_attn_weights: whether to average the returned weights over the heads.
            cache: keys and values of earlier tokens, to which the new ones are appended. Attention is then causal.

        Returns:
            (output in the query's shape; the weights [B, M, N], or [B, H, M, N] of each head, or None). The weights of
            a query without visible keys are 0.

        Raises:
            TrainerError: a shape doesn't fit, or dropout is active outside of a random step.
        """
        key = query if key is None else key
        value = key if value is None else value
        for name, x, width in (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)):
            self._check_shape(x.ndim == 3 and x.shape[2] == width, x, f"{name} [B, T, {width}] or [T, B, {width}]")
        heads = (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        q, k, v = (self._projected(x, part, heads[part]) for part, x in enumerate((query, key, value)))
        offset: Tensor | int = 0 if cache is None else cache.length + 0
        if self.rotary is not None:
            q, k = self.rotary(q, offset), self.rotary(k, offset)
        if cache is not None:
            k, v, offset = cache.update(k, v)
        mask, weights = self._mask(attn_mask, key_padding_mask, (*q.shape[:3], k.shape[2])), None

        def attend(values: Tensor) -> Tensor:
            return scaled_dot_product_attention(
                q, k, values, mask, self.dropout if self.training else 0.0, is_causal or cache is not None,
                window_size=self.window_size, query_offset=None if cache is None else offset, dropout_path=self.path,
            )  # fmt: skip

        if need_weights:  # the weights are the output for the identity matrix as values
            count = k.shape[2]
            weights = attend(functions.broadcast_to(functions.eye(count, dtype=v.dtype), (*k.shape[:3], count)))
            of_groups = functions.reshape(weights, (*k.shape[:2], -1, count))
            out = functions.reshape(functions.matmul(of_groups, v), (*q.shape[:3], self.head_dim))
            weights = functions.mean(weights, axis=1) if average_attn_weights else weights
        else:
            out = attend(v)
        order = (0, 2, 1, 3) if self.batch_first else (2, 0, 1, 3)
        return self.out_proj(functions.reshape(functions.permute_dims(out, order), query.shape)), weights

    def _projected(self, x: Tensor, part: int, heads: int) -> Tensor:
        """Returns projection number `part` of x as [B, heads, T, head_dim]."""
        start = sum(self.sizes[:part])
        stop = start + self.sizes[part]
        weight = self.in_proj_weight[start:stop] if self.is_packed else getattr(self, f"{'qkv'[part]}_proj_weight")
        rows = functions.reshape(x, (-1, x.shape[2]))
        y = functions.matmul(rows, functions.matrix_transpose(weight))
        if self.in_proj_bias is not None:
            y = (y + self.in_proj_bias[start:stop]).astype(y.dtype)
        y = functions.reshape(y, (*x.shape[:2], heads, self.head_dim))
        return functions.permute_dims(y, (0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3))

    def _mask(self, mask: Tensor | None, padding: Tensor | None, full: tuple[int, ...]) -> Tensor | None:
        """Merges both masks into one for `scaled_dot_product_attention`."""
        batch, heads, rows, keys = full
        if mask is not None and mask.ndim == 3:
            self._check_shape(mask.shape == (batch * heads, rows, keys), mask, f"{[batch * heads, rows, keys]}")
            mask = functions.reshape(mask, full)
        if padding is not None:
            self._check_shape(padding.shape == (batch, keys), padding, f"key_padding_mask {[batch, keys]}")
            padding = functions.reshape(padding, (batch, 1, 1, keys))
        known = [~each if each.dtype.kind == "bool" else each for each in (mask, padding) if each is not None]
        if len(known) < 2:
            return known[0] if known else None
        first, second = known
        if first.dtype.kind == second.dtype.kind == "bool":
            return first & second
        first, second = (functions.where(each, 0.0, -math.inf) if each.dtype.kind == "bool" else each
                         for each in known)  # fmt: skip
        return first + second

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}"
