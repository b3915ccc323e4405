"""Einstein summation: lowers subscripts to transposes, sums and matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trainer.engine.functions.linear import matmul
from trainer.engine.functions.movement import broadcast_to, permute_dims, reshape
from trainer.engine.functions.reductions import sum as sum_of
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.promotion import promoted
from trainer.engine.tensor import Tensor, as_tensor

_EXAMPLE = "letters of axes such as 'bij,bjk->bik', '...' for any further ones"


def einsum(subscripts: str, /, *operands: Any) -> Tensor:
    """Einstein summation: products of the operands' elements, summed over each letter that is not in the result:
    `"bij,bjk->bik"`.

    A letter names an axis. Equal letters have the same extent (or 1, which broadcasts); a letter repeated in one
    operand selects its diagonal. `...` stands for further axes, which broadcast. Without `->`, the result has the
    letters that occur once, in alphabetical order, after the axes of `...`. Operands are promoted to one dtype. Two
    operands become one matrix product; of several, the adjacent pair with the smallest product is multiplied first.

    Raises:
        TrainerError: the letters don't match the operands, a letter of the result is in no operand, or extents differ.

    >>> engine.einsum("ij,kj->ik", engine.ones((2, 3)), engine.ones((4, 3))).shape
    (2, 4)
    """
    tensors = [as_tensor(operand, operation="einsum") for operand in operands]
    inputs, output = _parsed(subscripts, tensors)
    extents: dict[str, int] = {}
    for labels, tensor in zip(inputs, tensors, strict=True):
        for label, extent in zip(labels, tensor.shape, strict=True):
            if extents.setdefault(label, extent) == 1:
                extents[label] = extent
            elif extent not in (1, extents[label]):
                found = f"{label.strip('.')!r} is {extents[label]} and {extent} in {describe(tensors)}"
                raise refusal("einsum", "extents differ", found=found, expected="one extent for each letter")
    dtype = promoted("einsum", [tensor.dtype for tensor in tensors])
    terms = [
        _Term(*_without_repeats(tensor.astype(dtype), labels)) for tensor, labels in zip(tensors, inputs, strict=True)
    ]
    while len(terms) > 1:
        first = _cheapest(terms, output, extents)
        others = {label for term in (*terms[:first], *terms[first + 2 :]) for label in term.labels}
        terms[first : first + 2] = [_product(terms[first], terms[first + 1], others | set(output), extents)]
    (last,) = terms
    kept = _summed(last, set(output))
    missing = tuple(label for label in output if label not in kept.labels)
    if missing:
        raise refusal("einsum", "a letter of the result is in no operand", found=f"{subscripts!r}", expected=_EXAMPLE)
    moved = permute_dims(kept.tensor, [kept.labels.index(label) for label in output])
    return broadcast_to(moved, [extents[label] for label in output])


class _Term:
    """A tensor and the label of each of its axes; axes of "..." are labeled by ".1" (the last), ".2", and so on."""

    def __init__(self, tensor: Tensor, labels: tuple[str, ...]) -> None:
        self.tensor, self.labels = tensor, labels

    def extent(self, label: str) -> int:
        return self.tensor.shape[self.labels.index(label)]


def _parsed(subscripts: str, tensors: Sequence[Tensor]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors) or not all(_is_term(term) for term in (*terms, right)):
        found = f"{subscripts!r} for {describe(tensors)}"
        raise refusal("einsum", "letters don't fit the operands", found=found, expected=_EXAMPLE)
    inputs, most = [], 0
    for term, tensor in zip(terms, tensors, strict=True):
        rest = tensor.ndim - len(term.replace("...", ""))
        if rest < 0 or (rest and "..." not in term):
            found = f"{term!r} for {describe([tensor])}"
            raise refusal("einsum", "letters don't fit the operands", found=found, expected="one for each axis")
        most = max(most, rest)
        inputs.append(_labels(term, rest))
    if arrow:
        output = _labels(right, most)
    else:
        letters = left.replace(",", "").replace(".", "")
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        output = (*_labels("...", most), *once)
    known = {label for labels in inputs for label in labels}
    if len(set(output)) != len(output) or not known.issuperset(output):
        found, expected = f"{subscripts!r}", "each letter of the result once, and in some operand"
        raise refusal("einsum", "no such result", found=found, expected=expected)
    return inputs, output


def _is_term(term: str) -> bool:
    letters = term.replace("...", "", 1)
    return not letters or (letters.isascii() and letters.isalpha())


def _labels(term: str, rest: int) -> tuple[str, ...]:
    before, dots, after = term.partition("...")
    further = tuple(f".{number}" for number in range(rest, 0, -1)) if dots else ()
    return (*before, *further, *after)


def _without_repeats(tensor: Tensor, labels: tuple[str, ...]) -> tuple[Tensor, tuple[str, ...]]:
    """Takes the diagonal along axes that share a label."""
    for label in labels:
        axes = [axis for axis, each in enumerate(labels) if each == label]
        if len(axes) > 1:
            first, second = axes[:2]
            rest = [axis for axis in range(tensor.ndim) if axis not in (first, second)]
            moved = permute_dims(tensor, [*rest, first, second])
            *outer, extent, other = moved.shape
            if extent != other:
                found = f"{label!r} is {extent} and {other} in {describe([tensor])}"
                raise refusal("einsum", "extents differ", found=found, expected="a diagonal's axes of one extent")
            flat = reshape(moved, (*outer, extent * extent))[..., :: extent + 1]
            return _without_repeats(flat, (*(labels[axis] for axis in rest), label))
    return tensor, labels


def _summed(term: _Term, kept: set[str]) -> _Term:
    """Sums the term over the axes whose labels are not in `kept`."""
    axes = [axis for axis, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    dtype = None if term.tensor.dtype.is_float else term.tensor.dtype
    labels = tuple(label for label in term.labels if label in kept)
    return _Term(sum_of(term.tensor, axis=axes, dtype=dtype), labels)


def _cheapest(terms: Sequence[_Term], output: Sequence[str], extents: dict[str, int]) -> int:
    """Returns the index of the first term of the adjacent pair whose product has the fewest elements."""

    def size(first: int) -> int:
        others = {label for place, term in enumerate(terms) if place not in (first, first + 1) for label in term.labels}
        labels = {*terms[first].labels, *terms[first + 1].labels} & (others | set(output))
        return math.prod(extents[label] for label in labels)

    return min(range(len(terms) - 1), key=size)


def _product(a: _Term, b: _Term, kept: set[str], extents: dict[str, int]) -> _Term:
    """The product of two terms, summed over the labels not in `kept`: [batch, rows, k] times [batch, k, columns]."""
    a, b = _summed(a, kept | set(b.labels)), _summed(b, kept | set(a.labels))
    shared = [label for label in a.labels if label in b.labels]
    batch = [label for label in shared if label in kept]
    summed = [label for label in shared if label not in kept]
    rows = [label for label in a.labels if label not in shared]
    columns = [label for label in b.labels if label not in shared]
    if not (summed and rows and columns):  # element-wise, so that it fuses; products of vectors are read once
        order = (*batch, *rows, *columns, *summed)
        left, right = (_spread(term, order) for term in (a, b))
        return _summed(_Term(left * right, order), kept)
    for label in (*batch, *summed):  # extent 1 broadcasts
        a, b = (_grown(term, label, extents[label]) for term in (a, b))
    left = _grouped(a, (batch, rows, summed))
    right = _grouped(b, (batch, summed, columns))
    shape = [*(a.extent(label) for label in (*batch, *rows)), *(b.extent(label) for label in columns)]
    return _Term(reshape(matmul(left, right), shape), (*batch, *rows, *columns))


def _spread(term: _Term, order: Sequence[str]) -> Tensor:
    """Returns the tensor with its axes in `order`; axes that the term lacks get extent 1."""
    moved = permute_dims(term.tensor, [term.labels.index(label) for label in order if label in term.labels])
    return reshape(moved, [term.extent(label) if label in term.labels else 1 for label in order])


def _grown(term: _Term, label: str, extent: int) -> _Term:
    if term.extent(label) == extent:
        return term
    shape = [extent if each == label else own for each, own in zip(term.labels, term.tensor.shape, strict=True)]
    return _Term(broadcast_to(term.tensor, shape), term.labels)


def _grouped(term: _Term, groups: Sequence[Sequence[str]]) -> Tensor:
    """Merges the axes of each group into one; the first group, the batch, is left out if it is empty."""
    order = [label for group in groups for label in group]
    moved = permute_dims(term.tensor, [term.labels.index(label) for label in order])
    extents = [math.prod(term.extent(label) for label in group) for group in groups]
    return reshape(moved, extents if groups[0] else extents[1:])
