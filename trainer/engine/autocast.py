"""Mixed precision: which operations compute in 16 bits, and which in float32, while a model stays in float32.

Inside `autocast("bfloat16")` or `autocast("float16")`

- matmul, tensordot, convolution, convolution_transpose (so Linear, Conv2d and ConvTranspose2d) round their operands to
  it, sum in float32 and give it;
- exp, expm1, log, log1p, reciprocal, pow, sum, mean, prod, var, std, cumulative_sum, softmax, log_softmax and the
  losses compute and give float32, also of 16-bit operands;
- everything else is as without: the dtype in which the operands meet;

as in PyTorch's lists. Normalisation layers take their statistics in float32 and give the dtype of their input, in and
outside of it. A weight stays float32: it is rounded once a step, however often it is used, and its gradient comes out
in float32 without having been rounded.

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
    """Compute products in `dtype` inside the `with` block (in this thread); "float32" ends it for a part inside.

    The table is in the docstring of this module. Put the forward pass and the loss inside.
    """
    name = dtype.name if isinstance(dtype, DType) else dtype
    if name not in _PRECISIONS:
        raise refusal("autocast", "no such precision", found=repr(dtype), expected=" or ".join(_PRECISIONS))
    token = _precision.set(_PRECISIONS[name])
    try:
        yield
    finally:
        _precision.reset(token)


def current() -> DType | None:
    """What products are computed in now, or None: in their operands' dtype."""
    return _precision.get()


def precision_of(*operands: DType) -> DType | None:
    """The precision of a contraction of these dtypes: autocast leaves float64 and whole numbers alone."""
    precision = current()
    return precision if all(dtype in (dtypes.float32, precision) for dtype in operands) else None


def rounded(node: Node, precision: DType | None) -> Node:
    """A contraction's result in `precision`."""
    return node if precision is None else p.cast(node, precision)


def widened(x: Tensor) -> Tensor:
    """`x`, where autocast is on and it has 16 bits in float32: for what should not be computed in 16 bits."""
    return x if _precision.get() is None or not x.dtype.is_half else wrapped(p.cast(x.node, dtypes.float32), x)
