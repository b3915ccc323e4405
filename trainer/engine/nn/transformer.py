"""Encoder and decoder blocks of transformers, with torch's names and defaults (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable

from trainer import TrainerError
from trainer.engine.nn import functional
from trainer.engine.nn.attention import MultiheadAttention
from trainer.engine.nn.dropout import Dropout
from trainer.engine.nn.key_value_cache import KeyValues
from trainer.engine.nn.linear import Linear
from trainer.engine.nn.module import Module
from trainer.engine.nn.positions import RotaryEmbedding
from trainer.engine.nn.sample_normalization import LayerNorm
from trainer.engine.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "gelu": functional.gelu}


class _Block(Module):
    """The shared part of encoder and decoder blocks: self-attention, and two linear layers around an activation."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, *, num_kv_heads: int | None = None,
        rotary: RotaryEmbedding | None = None, window_size: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        if isinstance(activation, str) and activation not in _ACTIVATIONS:
            raise TrainerError("no such activation", found=repr(activation),
                               expected=f"{', '.join(_ACTIVATIONS)}, or a function")  # fmt: skip
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, num_kv_heads=num_kv_heads, rotary=rotary,
            window_size=window_size,
        )  # fmt: skip
        if self.is_decoder:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.linear1 = Linear(d_model, dim_feedforward, bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        for number in range(1, 4 if self.is_decoder else 3):
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias))
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.norm_first = norm_first
        self.activation = _ACTIVATIONS[activation] if isinstance(activation, str) else activation

    is_decoder = False

    def _sublayer(self, x: Tensor, number: int, layer: Callable[[Tensor], Tensor]) -> Tensor:
        """x + dropout(layer(norm(x))), or norm(x + dropout(layer(x)))."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + dropout(layer(norm(x)))
        return norm(x + dropout(layer(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Block):
    """Self-attention, then two linear layers, each with dropout, a residual connection and a layer norm.

    With `is_causal` it is the block of a decoder-only language model; `rotary`, `num_kv_heads` and `window_size` are
    those of `MultiheadAttention`.

    Args:
        d_model, nhead: width and heads; dim_feedforward: width between the linear layers.
        activation: relu, gelu, or a function of tensors.
        batch_first: sequences are [B, T, E]; otherwise [T, B, E].
        norm_first: the norms come before attention and linear layers (pre-norm) instead of after the sums.
    """

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False, *, cache: KeyValues | None = None,
    ) -> Tensor:  # fmt: skip
        """Returns the block's output in the shape of `src`; masks and cache are as in `MultiheadAttention`."""

        def attend(x: Tensor) -> Tensor:
            y, _ = self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal, cache=cache)
            return y

        return self._sublayer(self._sublayer(src, 1, attend), 2, self._feed_forward)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to a memory, then two linear layers, each with dropout, residual connection and norm.

    Arguments and shapes are as in `TransformerEncoderLayer`; `rotary`, `num_kv_heads` and `window_size` apply only to
    self-attention.
    """

    is_decoder = True

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False, *, cache: KeyValues | None = None,
    ) -> Tensor:  # fmt: skip
        """Returns the block's output in the shape of `tgt`; `memory` is an encoder's output, masks as in attention."""

        def attend(x: Tensor) -> Tensor:
            y, _ = self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, tgt_is_causal, cache=cache)
            return y

        def attend_to_memory(x: Tensor) -> Tensor:
            y, _ = self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask, memory_is_causal)
            return y

        x = self._sublayer(self._sublayer(tgt, 1, attend), 2, attend_to_memory)
        return self._sublayer(x, 3, self._feed_forward)
