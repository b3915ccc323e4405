"""Random numbers as a pure function of a key and a counter: Philox4x32-10, reproducible on every machine.

`key` and `counter` are int32 [2] (tensors, arrays or pairs of ints). The number at row-major index i of a draw depends
only on (key, counter, i): different draws need different keys or counters. In a step with shards it also depends on
the shard's number: a row of the batch gets the same random numbers in any process.

`philox4x32` is the generator itself, on NumPy arrays.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.functions.axes import extents
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.philox import philox4x32 as philox4x32
from trainer.engine.sharding import random_counter
from trainer.engine.tensor import Tensor, as_tensor, wrapped

Extents = int | Sequence[int]

_DIGITS = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Number of significand bits of a dtype."""


def key_for(*parts: str | int) -> np.ndarray:
    """A key (int32 [2]): a hash of names and numbers, such as the seed, the path of a module, and which draw it is."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return np.frombuffer(digest, "<i4").astype(np.int32)


def bits(key: Any, counter: Any, shape: Extents, *, word: int = 0) -> Tensor:
    """32 random bits per element: int32, output `word` (0 to 3) of the generator; the four words are independent."""
    words, sources = _words(key, counter)
    return wrapped(p.random_bits(*words, extents("random.bits", shape), word), *sources)


def uniform(key: Any, counter: Any, shape: Extents, *, dtype: DType = dtypes.float32) -> Tensor:
    """Numbers in [0, 1), each a multiple of 2^-24 (float64: 2^-53; bfloat16: 2^-8, float16: 2^-11)."""
    words, sources = _words(key, counter)
    return wrapped(_uniform(words, extents("random.uniform", shape), dtype, 0), *sources)


def normal(key: Any, counter: Any, shape: Extents, *, dtype: DType = dtypes.float32) -> Tensor:
    """Numbers of the standard normal distribution (Box & Muller 1958), computed in float32 or wider."""
    words, sources = _words(key, counter)
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    target = extents("random.normal", shape)
    radius_source, angle_source = _uniform(words, target, wide, 0), _uniform(words, target, wide, 2)
    one = p.full(target, 1.0, wide)
    radius = p.sqrt(p.multiply(p.full(target, -2.0, wide), p.log(p.subtract(one, radius_source))))
    angle = p.multiply(p.full(target, 2 * math.pi, wide), angle_source)
    node = p.multiply(radius, p.cos(angle))
    return wrapped(node if dtype is wide else p.cast(node, dtype), *sources)


def bernoulli(key: Any, counter: Any, probability: float, shape: Extents) -> Tensor:
    """Bools that are True with `probability`, rounded to a multiple of 2^-24."""
    if not 0.0 <= probability <= 1.0:
        raise refusal("random.bernoulli", "not a probability", found=probability, expected="0 to 1")
    words, sources = _words(key, counter)
    target = extents("random.bernoulli", shape)
    drawn = _uniform(words, target, dtypes.float32, 0)
    return wrapped(p.less(drawn, p.full(target, probability, dtypes.float32)), *sources)


def _words(key: Any, counter: Any) -> tuple[tuple[Node, Node], list[Tensor]]:
    tensors = []
    for value in (key, counter):
        array = value if isinstance(value, Tensor) else as_tensor(np.asarray(value).astype(np.int32))
        if array.shape != (2,) or array.dtype is not dtypes.int32:
            raise refusal("random", "key and counter must be two words", found=describe([array]), expected="int32[2]")
        tensors.append(array)
    return (tensors[0].node, random_counter(tensors[1].node)), tensors


def _uniform(words: tuple[Node, Node], shape: Shape, dtype: DType, word: int) -> Node:
    """Uniform numbers in [0, 1) from output word `word` (float64: from this word and the next)."""
    if dtype is dtypes.float64:
        high, low = _top_bits(words, shape, word, 5), _top_bits(words, shape, word + 1, 6)
        scaled = p.multiply(p.cast(high, dtype), p.full(shape, 2.0**26, dtype))
        return p.multiply(p.add(scaled, p.cast(low, dtype)), p.full(shape, 2.0**-53, dtype))
    if dtype.name not in _DIGITS:
        raise refusal("random", "only floating-point dtypes", found=repr(dtype))
    digits = _DIGITS[dtype.name]
    return p.multiply(p.cast(_top_bits(words, shape, word, 32 - digits), dtype), p.full(shape, 2.0**-digits, dtype))


def _top_bits(words: tuple[Node, Node], shape: Shape, word: int, dropped: int) -> Node:
    return p.shift_right_logical(p.random_bits(*words, shape, word), p.full(shape, dropped, dtypes.int32))
