"""Scaled dot-product attention as one primitive, so that a target need not form the matrix of scores.

    scores = scale · query keyᵀ + bias − slope · |distance|, −inf where the distance is outside of the window
    out = softmax(scores) value,   log_sum = log(sum(exp(scores))) of each query

The distance of query i and key j is first + i − j: `first` is the position of the first query among the keys. A query
without visible keys has an output of zeros, no gradient, and log_sum +inf, so that exp(scores − log_sum) is 0.

Query, key, value and the cotangent of out may be bfloat16 with even widths. Then all other arrays, results included,
are float32, and the other factor of each product (weights, gradients of scores) is rounded to bfloat16 first.

Vaswani et al. 2017; Dao et al. 2022 (FlashAttention); Press et al. 2022 (ALiBi); Shazeer 2019 and Ainslie et al. 2023
(several query heads for each key head); Beltagy et al. 2020 (sliding windows).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes, philox
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Outputs, Primitive, make_node
from trainer.engine.graph.primitives.output import bundle_dtype, output
from trainer.engine.graph.primitives.table import register_bundle

UNLIMITED = 2**31 - 1
"""Window size on a side without a limit: every key on that side is visible."""

OPTIONS = {"bias": 1, "slopes": 1, "first": 1, "dropout": 2}
"""Optional operands in order, and the number of inputs of each: bias [B or 1, H or 1, M or 1, N or 1], slopes [H],
first int32 [B], key and counter of dropout int32 [2] each."""

GROUP = 64
"""Keys for each vector of random words of dropout: the four words of a draw are for four runs of sixteen keys."""

_ATTRIBUTES = ("scale", "window", "dropout", "operands")
_REQUIRED = {"attention": 3, "attention_gradient": 6}


def sums_of(dtype: DType) -> DType:
    """The dtype of sums and results for operands of `dtype`."""
    return dtypes.float32 if dtype.is_half else dtype


def options_of(name: str, inputs: Sequence[Any], attributes: tuple[Any, ...]) -> dict[str, tuple[Any, ...]]:
    """The optional operands among the inputs of primitive `name`, by name."""
    found, place = {}, _REQUIRED[name]
    for option in attributes[3]:
        found[option] = tuple(inputs[place : place + OPTIONS[option]])
        place += OPTIONS[option]
    return found


def _check(name: str, inputs: Sequence[Node], attributes: tuple[Any, ...]) -> None:
    scale, window, dropout, operands = attributes
    if [option for option in OPTIONS if option in operands] != [*operands]:
        raise refusal(name, "no such options", found=operands, expected=f"some of {', '.join(OPTIONS)} in this order")
    count = _REQUIRED[name] + sum(OPTIONS[option] for option in operands)
    if len(inputs) != count:
        raise refusal(name, "another number of inputs", found=describe(inputs), expected=f"{count} inputs")
    query, key, value = inputs[:3]
    known = (dtypes.bfloat16, dtypes.float32, dtypes.float64)
    if query.dtype not in known or any(node.dtype is not query.dtype for node in inputs[:3]):
        expected = "float32, float64 or bfloat16"
        raise refusal(name, "does not take these dtypes", found=describe(inputs[:3]), expected=expected)
    dtype = sums_of(query.dtype)
    if (
        any(node.ndim != 4 for node in (query, key, value)) or key.shape[:3] != value.shape[:3]
        or query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3] or not key.shape[1] or not query.shape[3]
        or not value.shape[3] or query.shape[1] % key.shape[1]
    ):  # fmt: skip
        expected = "query [B, H, M, D], key [B, G, N, D], value [B, G, N, E], where G divides H"
        raise refusal(name, "shapes do not go together", found=describe(inputs[:3]), expected=expected)
    if query.dtype.is_half and (query.shape[3] % 2 or value.shape[3] % 2):
        expected = "even widths: bfloat16 is multiplied in pairs"
        raise refusal(name, "an odd width of bfloat16", found=describe(inputs[:3]), expected=expected)
    batch, heads, rows, _ = query.shape
    full = (batch, heads, rows, key.shape[2])
    options = options_of(name, inputs, attributes)
    for bias in options.get("bias", ()):
        fits = bias.ndim == 4 and all(a in (1, b) for a, b in zip(bias.shape, full, strict=True))
        if bias.dtype is not dtype or not fits:
            expected = f"{dtype}{list(full)}, or 1 along an axis"
            raise refusal(name, "the bias does not fit", found=describe([bias]), expected=expected)
    kinds = {"slopes": (dtype, (heads,)), "first": (dtypes.int32, (batch,)), "dropout": (dtypes.int32, (2,))}
    for option, (kind, shape) in kinds.items():
        for node in options.get(option, ()):
            if (node.dtype, node.shape) != (kind, shape):
                expected = f"{kind}{list(shape)}"
                raise refusal(name, f"the {option} does not fit", found=describe([node]), expected=expected)
    if not 0 <= dropout < 1 or (dropout > 0) != ("dropout" in operands):
        raise refusal(name, "dropout needs a probability and a key", found=dropout, expected="0 to 1")
    if len(window) != 2 or min(window) < 0:
        raise refusal(name, "no such window", found=window, expected="two numbers of keys")
    if not np.isfinite(scale):
        raise refusal(name, "no such scale", found=scale, expected="a finite number")


def _outputs(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Outputs:
    query, value = inputs[0], inputs[2]
    dtype = sums_of(query.dtype)
    return ((*query.shape[:3], value.shape[3]), dtype), (query.shape[:3], dtype)


def _gradient_outputs(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Outputs:
    query, key = inputs[:2]
    scores, dtype = (*query.shape[:3], key.shape[2]), sums_of(query.dtype)
    return (*((node.shape, dtype) for node in inputs[:3]), (scores, dtype))


# --- reference ----------------------------------------------------------------------------------------------------


def _repeated(x: np.ndarray, heads: int) -> np.ndarray:
    return np.repeat(x.astype(np.float64), heads // x.shape[1], axis=1)


def _scores(
    query: np.ndarray, key: np.ndarray, attributes: tuple[Any, ...], options: dict[str, tuple[np.ndarray, ...]]
) -> np.ndarray:
    scale, (before, after), _, _ = attributes
    scores = scale * query @ _repeated(key, query.shape[1]).swapaxes(2, 3)
    (first,) = options.get("first", (np.zeros(query.shape[0], np.int64),))
    places = first.astype(np.int64)[:, None] + np.arange(query.shape[2])
    distance = places[:, None, :, None] - np.arange(key.shape[2])
    if "bias" in options:
        scores = scores + options["bias"][0]
    if "slopes" in options:
        scores = scores - options["slopes"][0].astype(np.float64)[:, None, None] * np.abs(distance)
    return np.where((distance <= before) & (distance >= -after), scores, -np.inf)


def _kept(shape: tuple[int, ...], dropout: float, words: tuple[np.ndarray, ...]) -> np.ndarray | float:
    """1 / (1 − p) where a weight is kept, else 0."""
    if not words:
        return 1.0
    groups, (key, counter) = -(-shape[3] // GROUP), words
    draws = [philox.random_bits(key, counter, (*shape[:3], groups, GROUP // 4), word) for word in range(4)]
    bits = np.stack(draws, axis=-2).reshape(*shape[:3], groups * GROUP)[..., : shape[3]]
    uniform = (bits.view(np.uint32) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return (uniform < np.float32(1 - dropout)) / (1 - dropout)


def _reference(
    attributes: tuple[Any, ...], query: np.ndarray, key: np.ndarray, value: np.ndarray, *others: np.ndarray
) -> tuple[np.ndarray, ...]:
    options = options_of("attention", (query, key, value, *others), attributes)
    query = query.astype(np.float64)
    scores = _scores(query, key, attributes, options)
    top = np.max(scores, axis=3, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = np.sum(weights, axis=3, keepdims=True)
    is_blind = total == 0
    log_sum = np.where(is_blind, np.inf, top + np.log(np.where(is_blind, 1, total)))[..., 0]
    weights = weights / np.where(is_blind, 1, total) * _kept(scores.shape, attributes[2], options.get("dropout", ()))
    return weights @ _repeated(value, query.shape[1]), log_sum


def _gradient_reference(
    attributes: tuple[Any, ...], query: np.ndarray, key: np.ndarray, value: np.ndarray, cotangent: np.ndarray,
    log_sum: np.ndarray, delta: np.ndarray, *others: np.ndarray,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    inputs = (query, key, value, cotangent, log_sum, delta, *others)
    options = options_of("attention_gradient", inputs, attributes)
    query, dy = query.astype(np.float64), cotangent.astype(np.float64)
    scores = _scores(query, key, attributes, options)
    kept = _kept(scores.shape, attributes[2], options.get("dropout", ()))
    weights = np.exp(scores - log_sum[..., None])
    dscores = weights * (kept * (dy @ _repeated(value, query.shape[1]).swapaxes(2, 3)) - delta[..., None])
    dkey = attributes[0] * dscores.swapaxes(2, 3) @ query
    dvalue = (weights * kept).swapaxes(2, 3) @ dy
    dquery = attributes[0] * dscores @ _repeated(key, query.shape[1])
    shape = (*key.shape[:2], query.shape[1] // key.shape[1])
    return (dquery, *(x.reshape(*shape, *x.shape[2:]).sum(2) for x in (dkey, dvalue)), dscores)


# --- primitives -------------------------------------------------------------------------------------------------------


def _dtype(name: str, outputs: Any) -> Any:
    def rule(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
        _check(name, inputs, attributes)
        return bundle_dtype(outputs(inputs, attributes))

    return rule


def _gradient_dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    _check("attention_gradient", inputs, attributes)
    query, rows = inputs[0], inputs[0].shape[:3]
    sums = (sums_of(query.dtype), rows)
    allowed = [(query.dtype, (*rows, inputs[2].shape[3])), sums, sums]
    if [(node.dtype, node.shape) for node in inputs[3:6]] != allowed:
        expected = ", ".join(f"{dtype}{list(shape)}" for dtype, shape in allowed)
        raise refusal("attention_gradient", "cotangents do not fit", found=describe(inputs[3:6]), expected=expected)
    return bundle_dtype(_gradient_outputs(inputs, attributes))


_ATTENTION = register_bundle(
    Primitive("attention", "bundle", lambda inputs, attributes: (), _dtype("attention", _outputs), _reference,
              _ATTRIBUTES, _outputs)
)  # fmt: skip
_ATTENTION_GRADIENT = register_bundle(
    Primitive("attention_gradient", "bundle", lambda inputs, attributes: (), _gradient_dtype, _gradient_reference,
              _ATTRIBUTES, _gradient_outputs)
)  # fmt: skip


def attention(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> tuple[Node, Node]:
    """(out [B, H, M, E], log_sum [B, H, M]) of (query, key, value, *options).

    The attributes are (scale, window, dropout, operands): window is the number of visible keys before and after the
    position of a query; operands names the options that are present.
    """
    bundle = make_node(_ATTENTION, tuple(inputs), attributes)
    return output(bundle, 0), output(bundle, 1)


def attention_gradient(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> tuple[Node, Node, Node, Node]:
    """The cotangents of query, key, value and scores, from (query, key, value, cotangent of out, log_sum, delta,
    *options).

    delta [B, H, M] is the sum of cotangent · out along a row, minus the cotangent of log_sum. Biases and slopes need
    the cotangents of the scores [B, H, M, N]; a target may leave these out where nothing reads them.
    """
    bundle = make_node(_ATTENTION_GRADIENT, tuple(inputs), attributes)
    return output(bundle, 0), output(bundle, 1), output(bundle, 2), output(bundle, 3)
