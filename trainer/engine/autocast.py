"""Mixed precision: which operations compute in 16 bits, and which in float32, while a model stays in float32.

Inside `autocast("bfloat16")` or `autocast("float16")`

- matmul, tensordot, convolution, convolution_transpose (so Linear, Conv2d and ConvTranspose2d) round their operands to
  this dtype, accumulate in float32 and return this dtype;
- exp, expm1, log, log1p, reciprocal, pow, sum, mean, prod, var, std, cumulative_sum, softmax, log_softmax and the
  losses compute in and return float32, also for 16-bit operands;
- scaled_dot_product_attention accumulates in float32 and returns the dtype of its operands, which Linear returns in 16
  bits; with bfloat16 operands it rounds the attention weights to bfloat16, with float16 operands it rounds nothing;
- all other operations are unchanged and use the promoted dtype of their operands;

as in PyTorch's lists. Normalization layers compute their statistics in float32 and return the dtype of their input,
inside and outside of `autocast`. A weight stays float32: it is rounded once per step, even if it is used several times,
and its float32 gradient is not rounded.

The rounding is part of the graph (`precision` of a contraction, and casts), so gradients of any order follow it, on
every device, whether they are taken inside the context or after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node
from trainer.engine.tensor import Tensor, wrapped

_PRECISIONS: dict[str, DType | None] = {"bfloat16": dtypes.bfloat16, "float16": dtypes.float16, "float32": None}
_precision: ContextVar[DType | None] = ContextVar("precision", default=None)


@contextmanager
def autocast(dtype: str | DType = "bfloat16") -> Iterator[None]:
    """Computes products in `dtype` inside the `with` block (in this thread); a nested "float32" turns it off.

    The docstring of this module lists the operations. Put the forward pass and the loss inside.
    """
    name = dtype.name if isinstance(dtype, DType) else dtype
    if name not in _PRECISIONS:
        raise refusal("autocast", "unknown precision", found=repr(dtype), expected=" or ".join(_PRECISIONS))
    token = _precision.set(_PRECISIONS[name])
    try:
        yield
    finally:
        _precision.reset(token)


def current() -> DType | None:
    """The current dtype of products, or None for the dtype of their operands."""
    return _precision.get()


def precision_of(*operands: DType) -> DType | None:
    """The precision of a contraction of these dtypes; autocast does not change float64 and integers."""
    precision = current()
    return precision if all(dtype in (dtypes.float32, precision) for dtype in operands) else None


def rounded(node: Node, precision: DType | None) -> Node:
    """`node`, the result of a contraction, rounded to `precision`."""
    return node if precision is None else p.cast(node, precision)


def widened(x: Tensor) -> Tensor:
    """`x`, widened to float32 if autocast is on and x has 16 bits: for operations that need float32."""
    return x if _precision.get() is None or not x.dtype.is_half else wrapped(p.cast(x.node, dtypes.float32), x)
