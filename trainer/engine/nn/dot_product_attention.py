"""Scaled dot-product attention as a function of tensors, with PyTorch's arguments and FlashAttention's."""

from __future__ import annotations

import math
from typing import Any

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType, bfloat16, float32, int32
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.attention import UNLIMITED
from trainer.engine.nn import random
from trainer.engine.promotion import promoted
from trainer.engine.tensor import Tensor, as_tensor, cast, wrapped

_NAME = "scaled_dot_product_attention"
_UNSEEN = -math.inf


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, *, window_size: tuple[int, int] | None = None,
    alibi_slopes: Tensor | None = None, query_offset: Tensor | int | None = None, dropout_path: str = "attention",
) -> Tensor:  # fmt: skip
    """softmax(scale · query keyᵀ + bias) value, without materializing the score matrix (Vaswani et al. 2017).

    Scores are computed block by block and recomputed in the backward pass (Dao et al. 2022), so memory grows with M + N
    instead of M · N. 16-bit operands accumulate in float32. For bfloat16 operands of even width, the weights and, in
    the backward pass, the gradients of the scores are rounded to bfloat16 before they are multiplied. The result has
    the same bits on any number of threads.

    Args:
        query: [B, H, M, D].
        key, value: [B, G, N, D] and [B, G, N, E]; G divides H: query head h reads key head h // (H / G) (grouped-query
            attention; G = 1 is multi-query).
        attn_mask: broadcasts to [B, H, M, N]. Boolean: True keeps a pair. Floating-point: added to the scores.
        dropout_p: each weight is zeroed with this probability; the others are divided by 1 − p. The mask is the next
            draw of `dropout_path` from the `nn.RandomState` whose step is active.
        is_causal: a query attends only to keys up to its own position.
        scale: defaults to 1 / sqrt(D).
        window_size: maximum numbers of keys before and after its own position that a query sees; −1 is no limit.
        alibi_slopes: [H]; slope · |distance| is subtracted from the scores (Press et al. 2022).
        query_offset: an integer or integers [B]: the position of the first query among the keys, 0 by default.

    Returns:
        [B, H, M, E]. A query without visible keys gives zeros and no gradient.

    Derivatives of any order are correct. The first does not materialize the score matrix; higher ones, and those of
    `attn_mask` and `alibi_slopes`, do.

    Raises:
        TrainerError: shapes or dtypes are incompatible, `dropout_p` is not in [0, 1), or it is used outside a step.
    """
    query, key, value = tensors = [as_tensor(each, operation=_NAME) for each in (query, key, value)]
    dtype = promoted(_NAME, [tensor.dtype for tensor in tensors])
    _check(query, key, value, dtype, dropout_p)
    wide = float32 if dtype.is_half else dtype
    batch, heads, rows, width = query.shape
    by_pairs = dtype is bfloat16 and width % 2 == value.shape[3] % 2 == 0
    inputs, operands = [cast(tensor.node, dtype if by_pairs else wide) for tensor in tensors], []
    if attn_mask is not None:
        attn_mask = as_tensor(attn_mask, operation=_NAME)
        tensors.append(attn_mask)
        inputs.append(_as_bias(attn_mask, (batch, heads, rows, key.shape[2]), wide))
        operands.append("bias")
    if alibi_slopes is not None:
        alibi_slopes = as_tensor(alibi_slopes, operation=_NAME)
        if alibi_slopes.shape != (heads,) or not alibi_slopes.dtype.is_float:
            raise _refused("a slope for each query head", f"alibi_slopes {_kind(alibi_slopes)}", f"float [{heads}]")
        tensors.append(alibi_slopes)
        inputs.append(cast(alibi_slopes.node, wide))
        operands.append("slopes")
    if query_offset is not None:
        offset = _as_offset(query_offset, batch)
        tensors.append(offset)
        inputs.append(offset.node)
        operands.append("first")
    if dropout_p:
        words = [as_tensor(word) for word in random.active().draw(dropout_path)]
        tensors += words
        inputs += [word.node for word in words]
        operands.append("dropout")
    factor = 1 / math.sqrt(width) if scale is None else float(scale)
    attributes = (factor, _window(window_size, is_causal), float(dropout_p), tuple(operands))
    out, _ = p.attention(inputs, attributes)
    return wrapped(cast(out, dtype), *tensors)


def _check(query: Tensor, key: Tensor, value: Tensor, dtype: DType, dropout: float) -> None:
    fits = all(tensor.ndim == 4 for tensor in (query, key, value))
    fits = fits and query.shape[0] == key.shape[0] and key.shape[:3] == value.shape[:3]
    fits = fits and query.shape[3] == key.shape[3] > 0 and key.shape[1] > 0 and query.shape[1] % key.shape[1] == 0
    fits = fits and value.shape[3] > 0
    if not fits or not dtype.is_float:
        found = f"query {_kind(query)}, key {_kind(key)}, value {_kind(value)}"
        expected = "floating-point query [B, H, M, D], key [B, G, N, D] and value [B, G, N, E], where G divides H"
        raise _refused("query, key and value do not go together", found, expected)
    if not 0 <= dropout < 1:
        raise _refused("no probability of dropout", f"dropout_p {dropout}", "at least 0 and less than 1")


def _as_bias(mask: Tensor, full: tuple[int, ...], dtype: DType) -> Node:
    extents = (1,) * (4 - mask.ndim) + mask.shape
    fits = len(extents) == 4 and all(a in (1, b) for a, b in zip(extents, full, strict=True))
    if not fits or not (mask.dtype.is_float or mask.dtype.kind == "bool"):
        expected = f"boolean or floating-point, broadcasting to {list(full)}"
        raise _refused("the mask does not fit", f"attn_mask {_kind(mask)}", expected)
    four = functions.reshape(mask, extents)
    if mask.dtype.kind == "bool":
        four = functions.where(four, functions.asarray(0.0, dtype=dtype), functions.asarray(_UNSEEN, dtype=dtype))
    return cast(four.node, dtype)


def _as_offset(offset: Any, batch: int) -> Tensor:
    tensor = as_tensor(offset, operation=_NAME)
    if tensor.shape not in ((), (1,), (batch,)) or not tensor.dtype.is_integer:
        raise _refused("positions are integers", f"query_offset {_kind(tensor)}", f"an integer, or integers [{batch}]")
    return functions.broadcast_to(tensor.astype(int32), (batch,))


def _window(size: tuple[int, int] | None, is_causal: bool) -> tuple[int, int]:
    before, after = (-1, -1) if size is None else size
    if before < -1 or after < -1:
        raise _refused("no such window", f"window_size {size}", "two numbers of keys, −1 for no limit")
    before, after = (UNLIMITED if side < 0 else side for side in (before, after))
    return before, 0 if is_causal else after


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype}{list(tensor.shape)}"


def _refused(problem: str, found: str, expected: str) -> TrainerError:
    return TrainerError(f"{_NAME}: {problem}", found=found, expected=expected)
