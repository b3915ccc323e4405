"""Sorting functions of the standard, the greatest k, and the greedy choice among what overlaps."""

from __future__ import annotations

from typing import Any

from trainer.engine.functions.axes import one_axis
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.tensor import Tensor, as_tensor, wrapped


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort `x` along `axis`, int64. NaN counts as greater than any number.

    Equal elements keep their order, also in descending order, whatever `stable` says: the result is one and the same.
    """
    tensor = as_tensor(x)
    return wrapped(p.argsort(tensor.node, one_axis("argsort", axis, tensor.ndim), bool(descending)), tensor)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """`x` sorted along `axis`, as by `argsort`; each element's gradient goes to where the element was."""
    tensor = as_tensor(x)
    number = one_axis("sort", axis, tensor.ndim)
    order = p.argsort(tensor.node, number, bool(descending))
    return wrapped(p.take_along(tensor.node, order, number) if tensor.size else tensor.node, tensor)


def top_k(x: Any, /, k: int, *, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The `k` greatest elements along `axis`, the greatest first, and their indices, int64; of equals the first ones.

    Raises:
        TrainerError: there are fewer than `k` elements along the axis.
    """
    tensor = as_tensor(x)
    number = one_axis("top_k", axis, tensor.ndim)
    if not 0 < k <= tensor.shape[number]:
        raise refusal("top_k", "no such number of elements", found=f"k={k} of {describe([tensor])}, axis {axis}")
    order = p.argsort(tensor.node, number, True)
    stop = tuple(k if axis == number else extent for axis, extent in enumerate(tensor.shape))
    places = p.slice_(order, (0,) * tensor.ndim, stop, (1,) * tensor.ndim)
    return wrapped(p.take_along(tensor.node, places, number), tensor), wrapped(places, tensor)


def suppress(overlaps: Any, /) -> Tensor:
    """Which of N candidates stay, bool [..., N], going from the first to the last: all that no staying one overlaps.

    `overlaps` is bool [..., N, N]; row i says whom candidate i hides. With candidates by falling score it is the choice
    of greedy non-maximum suppression, of boxes, masks or anything else that can be compared.
    """
    tensor = as_tensor(overlaps)
    return wrapped(p.suppress(tensor.node), tensor)
