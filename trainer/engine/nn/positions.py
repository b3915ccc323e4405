"""Position embeddings of tokens: rotary, sinusoidal and learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.functions.movement import take_rows
from trainer.engine.graph.dtypes import float32, float64
from trainer.engine.nn.initializers import normal
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare
from trainer.engine.tensor import Tensor, as_tensor


def rotary_embedding(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Rotates each pair of elements of x [..., T, D] by an angle (Su et al. 2021); D is even.

    Args:
        cos, sin: cosine and sine of the angle of each pair; they broadcast to [..., T, D / 2].
        interleaved: pairs are the adjacent elements 2i and 2i + 1, as in the paper; otherwise i and i + D / 2, as in
            GPT-NeoX and LLaMA.

    Raises:
        TrainerError: D is odd, or the number of angles is not D / 2.
    """
    width = x.shape[-1] if x.ndim else 1
    if width % 2 or cos.shape[-1:] != (width // 2,) or sin.shape != cos.shape:
        found = f"x {list(x.shape)}, cos {list(cos.shape)}, sin {list(sin.shape)}"
        raise TrainerError("rotary_embedding turns pairs of elements", found=found,
                           expected="x [..., T, D] with D even, cos and sin [..., T, D / 2]")  # fmt: skip
    axis = -1 if interleaved else -2
    pairs = functions.reshape(x, (*x.shape[:-1], *((width // 2, 2) if interleaved else (2, width // 2))))
    signs = functions.asarray(np.array([-1, 1], np.float32), dtype=sin.dtype)
    signs = signs if interleaved else functions.reshape(signs, (2, 1))
    turned = pairs * functions.expand_dims(cos, axis=axis)
    turned = turned + functions.flip(pairs, axis=axis) * (functions.expand_dims(sin, axis=axis) * signs)
    return functions.reshape(turned.astype(x.dtype), x.shape)


class RotaryEmbedding(Module):
    """Applies `functional.rotary_embedding` to queries or keys x [B, H, T, D], with angles from a table.

    The angle of pair i at position t is t · base^(−2i / D). The table is not part of the state dictionary.

    Args:
        dim: D, the width of a head; even.
        max_positions: number of positions in the table.
        base: the longest wavelength is 2π · base positions.
        interleaved: which elements form a pair; see the function.

    Call it with `offset`, an integer or integers [B]: the position of the first token. An integer is checked. Values of
    an array are unknown in a traced step, so tokens past the end of the table use its last row.
    """

    def __init__(self, dim: int, max_positions: int = 2048, base: float = 10000.0, interleaved: bool = False) -> None:
        if dim < 2 or dim % 2 or max_positions < 1:
            raise TrainerError("RotaryEmbedding turns pairs of elements", found=f"dim {dim}, {max_positions} positions",
                               expected="an even dim of at least 2, and at least 1 position")  # fmt: skip
        self.dim, self.max_positions, self.base, self.interleaved = dim, max_positions, base, interleaved
        angles = np.outer(np.arange(max_positions), base ** (-np.arange(0, dim, 2) / dim))
        self.cos, self.sin = (functions.asarray(table) for table in (np.cos(angles), np.sin(angles)))

    def forward(self, x: Tensor, offset: Tensor | int = 0) -> Tensor:
        x = as_tensor(x, operation=type(self).__name__)
        expected = f"[B, H, T, {self.dim}] with at most {self.max_positions} tokens"
        self._check_shape(x.ndim == 4 and x.shape[3] == self.dim and x.shape[2] <= self.max_positions, x, expected)
        cos, sin = (_rows(table, x, offset, x.shape[2]) for table in (self.cos, self.sin))
        if cos.ndim == 3:  # per sample, shared by all heads
            cos, sin = functions.expand_dims(cos, axis=1), functions.expand_dims(sin, axis=1)
        return rotary_embedding(x, cos, sin, self.interleaved)

    def extra_repr(self) -> str:
        return f"{self.dim}, max_positions={self.max_positions}, base={self.base:g}"


class SinusoidalPositions(Module):
    """Adds the sines and cosines of the positions to x [B, T, E] (Vaswani et al. 2017); E is even.

    Element 2i of position t is sin(t · 10000^(−2i / E)), element 2i + 1 the cosine. `offset`: see `RotaryEmbedding`.
    """

    def __init__(self, dim: int, max_positions: int = 2048) -> None:
        if dim < 2 or dim % 2 or max_positions < 1:
            raise TrainerError("SinusoidalPositions adds pairs", found=f"dim {dim}, {max_positions} positions",
                               expected="an even dim of at least 2, and at least 1 position")  # fmt: skip
        self.dim, self.max_positions = dim, max_positions
        angles = np.outer(np.arange(max_positions), 10000.0 ** (-np.arange(0, dim, 2) / dim))
        pairs = np.stack([np.sin(angles), np.cos(angles)], axis=2)
        self.table = functions.asarray(pairs.reshape(max_positions, dim))

    def forward(self, x: Tensor, offset: Tensor | int = 0) -> Tensor:
        return _with_positions(self, x, self.table, offset)

    def extra_repr(self) -> str:
        return f"{self.dim}, max_positions={self.max_positions}"


class LearnedPositions(Module):
    """Adds row t of weight [max_positions, E] to position t of x [B, T, E]; normal(0, 0.02), as in GPT-2.

    `offset`: see `RotaryEmbedding`.
    """

    def __init__(self, dim: int, max_positions: int) -> None:
        self.dim, self.max_positions = dim, max_positions
        self.weight = declare((max_positions, dim), normal(0.0, 0.02))

    def forward(self, x: Tensor, offset: Tensor | int = 0) -> Tensor:
        return _with_positions(self, x, self.weight, offset)

    def extra_repr(self) -> str:
        return f"{self.dim}, max_positions={self.max_positions}"


def _with_positions(module: Any, x: Tensor, table: Tensor, offset: Tensor | int) -> Tensor:
    x = as_tensor(x, operation=type(module).__name__)
    expected = f"[B, T, {module.dim}] with at most {module.max_positions} tokens"
    holds = x.ndim == 3 and x.shape[2] == module.dim and x.shape[1] <= module.max_positions
    module._check_shape(holds, x, expected)
    return (x + _rows(table, x, offset, x.shape[1])).astype(x.dtype)


def _rows(table: Tensor, x: Tensor, offset: Tensor | int, count: int) -> Tensor:
    """Rows offset … offset + count − 1: [count, ...], or [B, count, ...] for offsets [B]; float64 only if x is."""
    size = table.shape[0]
    table = table.astype(float64 if x.dtype is float64 else float32)
    if isinstance(offset, int | np.integer):
        if not 0 <= offset <= size - count:
            raise TrainerError("there are no such positions", found=f"{count} tokens from position {offset} on",
                               expected=f"positions 0 to {size - 1}", hint="Give the module a larger max_positions.",
                               )  # fmt: skip
        return table[offset : offset + count]
    places = as_tensor(offset)
    places = functions.expand_dims(places, axis=-1) + functions.arange(count, dtype=places.dtype)
    return take_rows(table, places)
