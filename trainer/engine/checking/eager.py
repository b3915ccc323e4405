"""Runs a program operation by operation, each computed as soon as it is called; finds the first NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import targets
from trainer.engine.evaluation import compute
from trainer.engine.graph import lines
from trainer.engine.graph.errors import describe
from trainer.engine.graph.node import Node, uncomputed
from trainer.engine.state import State
from trainer.engine.tensor import Tensor, watcher
from trainer.engine.tracing.trace import Traced


@dataclass(frozen=True)
class FoundNaN:
    """The first operation that produced a NaN.

    operation: the primitive's name, or "input" (with a state's name) if a value was NaN before it was used.
    line: the user's line, `file.py:12`; for a gradient that of the differentiated operation. None if unknown.
    result: dtype, shape and number of NaN elements. inputs: the same for each input, with its minimum and maximum.
    """

    operation: str
    line: str | None
    result: str
    inputs: tuple[str, ...]

    def __str__(self) -> str:
        inputs = "".join(f"\n  from {each}" for each in self.inputs)
        return f"{self.operation} at {self.line or 'an unknown line'} produced {self.result}{inputs}"


class _NaNError(TrainerError):
    def __init__(self, report: FoundNaN) -> None:
        self.report = report
        super().__init__(f"{report.operation}: the first NaN", where=report.line, found=report.result,
                         expected="numbers", hint="; ".join(("computed from", *report.inputs)))  # fmt: skip


class _Watcher:
    """Computes each tensor when it is created; remembers the values of states before assignments."""

    def __init__(self, *, nan: bool) -> None:
        self.nan = nan
        self.before: dict[State, np.ndarray] = {}

    def on_tensor(self, tensor: Tensor) -> None:
        """Computes the value of a new tensor."""
        pending = uncomputed([tensor.node]) if self.nan else []
        names = {node: node.name for node in pending}  # a node with a value may become a leaf
        try:
            with targets.lock:
                compute([tensor.node])
                tensor._computed()
        except TrainerError:
            raise
        except Exception as error:
            raise TrainerError(
                f"{tensor.node.name}: computing failed with {type(error).__name__}", where=tensor.node.line,
                found=str(error), expected=describe([tensor]),
            ) from error  # fmt: skip
        if self.nan and _nans(tensor.node):
            raise _NaNError(_first(pending, names))

    def on_assign(self, state: State) -> None:
        """Stores a state's value before its first assignment."""
        if self.nan and state not in self.before:
            self.before[state] = state.numpy()


@contextmanager
def eager(*, check_nan: bool = False) -> Iterator[None]:
    """Computes each operation as soon as it is called, inside the `with` block (in this thread).

    Traced steps run as plain Python functions. A failing operation raises at its own line, a debugger can inspect every
    value, and prints show numbers. It is slow: nothing is fused, and each kind of operation is compiled separately.

    Args:
        check_nan: raise at the first operation whose result has a NaN.

    Raises:
        TrainerError: an operation fails, with the user's line; with `check_nan`, a result has a NaN.
    """
    with _watched(_Watcher(nan=check_nan)):
        yield


@contextmanager
def _watched(watch: _Watcher) -> Iterator[None]:
    token = watcher.set(watch)
    lines.noting += 1
    try:
        yield
    finally:
        lines.noting -= 1
        watcher.reset(token)


def find_nan(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> FoundNaN | None:
    """The first operation of `function(*args, **kwargs)` that produces a NaN, with its line; None if no operation does.

    The function, which may be a traced step, runs operation by operation (`engine.eager`) up to that one,
    gradients included. States that it assigns are restored. A NaN is found even if `where` discards it later.
    """
    watch = _Watcher(nan=True)
    try:
        with _watched(watch):
            (function if isinstance(function, Traced) else Traced(function))(*args, **kwargs)
    except _NaNError as error:
        return error.report
    finally:
        for state, value in watch.before.items():
            state.set_value(value)
    return None


def _nans(node: Node) -> int:
    """Number of NaN elements in a node's value."""
    return int(np.isnan(_values(node)).sum()) if node.dtype.is_float else 0


def _values(node: Node) -> np.ndarray:
    return Tensor(node).numpy()


def _first(order: list[Node], names: dict[Node, str]) -> FoundNaN:
    """Returns the first node in `order` that has a NaN, as a report; the last node has one."""
    for node in order:
        if node.is_bundle or not node.dtype.is_float:
            continue
        with targets.lock:
            compute([node])
        if count := _nans(node):
            inputs = tuple(_described(source) for source in node.inputs if not source.is_bundle)
            assert node.value is not None
            name = f"input {node.value.name}".rstrip() if names[node] == "buffer" else names[node]
            return FoundNaN(name, node.line, f"{describe([node])} with {count} NaN", inputs)
    raise AssertionError("the last of the nodes holds a NaN")


def _described(node: Node) -> str:
    with targets.lock:
        compute([node])
    values = _values(node)
    if not values.size or values.dtype == np.bool_:
        return describe([node])
    numbers = values[~np.isnan(values)] if node.dtype.is_float else values
    extent = f", {numbers.min()} to {numbers.max()}" if numbers.size else ""
    count = _nans(node)
    return f"{describe([node])}{extent}{f', {count} NaN' if count else ''}"
