"""Compares gradients with finite differences: finds wrong derivatives and their places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainer.engine import functions
from trainer.engine.functions import asarray
from trainer.engine.gradients import gradients
from trainer.engine.graph.dtypes import DType, float64
from trainer.engine.graph.errors import refusal
from trainer.engine.tensor import Tensor, as_tensor

_ELEMENTS = 32
"""Elements of each input whose derivatives are checked one by one; a random direction covers the others."""


def check_gradient(
    function: Callable[..., Any], /, *inputs: Any, order: int = 1, dtype: DType | None = float64, step: float = 1e-5,
    rtol: float = 1e-4, atol: float = 1e-6, seed: int = 0,
) -> None:  # fmt: skip
    """Compares the gradients of `function` at `inputs` with central differences; returns None if they agree.

    Up to 32 randomly chosen elements of each floating-point input are moved one by one, then the whole input in a
    random direction. A result of any shape is reduced to a number with random weights.

    Args:
        function: takes tensors, returns a tensor or several; states that it reads are constants.
        inputs: tensors, arrays or numbers; floating-point ones are converted to `dtype` (None keeps theirs) and
            differentiated. Choose points away from kinks and ties by more than `step`.
        order: 2 also checks the derivatives of the gradients.
        step: distance by which an element moves in each direction; about the cube root of the dtype's precision (1e-2
            for float32).
        rtol, atol: differences up to atol + rtol·max(|a|, |b|) count as rounding.

    Raises:
        TrainerError: a gradient differs from the finite differences, with its input, place and both numbers; or no
            input is floating-point.
    """
    tensors = [_converted(value, dtype) for value in inputs]
    chosen = [number for number, tensor in enumerate(tensors) if tensor.dtype.is_float]
    if not chosen:
        raise refusal("check_gradient", "no input can be differentiated", expected="a floating-point input")
    random = np.random.default_rng(seed)
    weights: list[np.ndarray] = []

    def number(*values: Tensor) -> Tensor:
        returned = function(*values)
        results = [each for each in (returned if isinstance(returned, tuple | list) else [returned])
                   if each.dtype.is_float]  # fmt: skip
        while len(weights) < len(results):
            weights.append(random.uniform(0.5, 1.5, results[len(weights)].shape))
        parts = [
            functions.sum(each * asarray(weight, dtype=each.dtype))
            for each, weight in zip(results, weights, strict=True)
        ]
        return _total(parts)

    _compare(number, tensors, chosen, step, rtol, atol, random, "gradient")
    if order < 2:
        return
    directions = {place: random.uniform(0.5, 1.5, tensors[place].shape) for place in chosen}

    def slope(*values: Tensor) -> Tensor:
        found = gradients(number(*values), [values[place] for place in chosen])
        parts = [functions.sum(each * asarray(directions[place], dtype=each.dtype))
                 for each, place in zip(found, chosen, strict=True)]  # fmt: skip
        return _total(parts)

    _compare(slope, tensors, chosen, step, rtol, atol, random, "second derivative")


def _compare(
    number: Callable[..., Tensor], tensors: list[Tensor], chosen: list[int], step: float, rtol: float, atol: float,
    random: np.random.Generator, what: str,
) -> None:  # fmt: skip
    found = [each.numpy() for each in gradients(number(*tensors), [tensors[place] for place in chosen])]
    for place, gradient in zip(chosen, found, strict=True):
        values = tensors[place].numpy()
        picked = random.permutation(gradient.size)[:_ELEMENTS]
        directions = [(index, np.unravel_index(index, gradient.shape)) for index in picked.tolist()]
        for direction in (*directions, None):
            move = np.zeros(values.shape)
            if direction is None:
                move[...] = random.standard_normal(values.shape)
            else:
                move[direction[1]] = 1

            def at(side: float, place: int = place, values: np.ndarray = values, move: np.ndarray = move) -> float:
                moved = asarray(values + side * move, dtype=tensors[place].dtype)
                return float(number(*tensors[:place], moved, *tensors[place + 1 :]))

            expected = (at(step) - at(-step)) / (2 * step)
            given = float((gradient.astype(np.float64) * move).sum())
            if not abs(given - expected) <= atol + rtol * max(abs(given), abs(expected)):  # NaN counts as a difference
                where = "in a random direction" if direction is None else f"at {[int(i) for i in direction[1]]}"
                raise refusal(
                    "check_gradient", f"the {what} of input {place} is wrong {where}", found=given,
                    expected=f"{expected}, by central differences with a step of {step}",
                    hint="At a kink or a tie the differences are wrong: move the inputs away from it.",
                )  # fmt: skip


def _converted(value: Any, dtype: DType | None) -> Tensor:
    """Returns a leaf with the value, in `dtype` if it is floating-point."""
    tensor = as_tensor(value, operation="check_gradient")
    to = dtype if dtype is not None and tensor.dtype.is_float else tensor.dtype
    return asarray(tensor.astype(to).numpy())


def _total(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
