"""Errors of the tensor engine: they name the operation, what was found, what was expected, and the user's line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import trainer
from trainer import TrainerError
from trainer.engine.graph.dtypes import DType

_PACKAGE = os.path.dirname(os.path.abspath(trainer.__file__)) + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))  # frames between the user and the package, e.g. contextlib
_RECIPES = os.path.join(_PACKAGE, "recipes") + os.sep  # written like user code, and copied to become user code


class ArgumentError(TrainerError, ValueError):
    """An operation was used incorrectly; also a `ValueError`, as the array API standard requires."""


class DTypeError(ArgumentError, TypeError):
    """Unsupported dtypes, or dtypes without a common promoted dtype; also a `TypeError`, as libraries expect."""


class IndexingError(ArgumentError, IndexError):
    """An invalid index or axis of an array; also an `IndexError`."""


def user_line() -> str | None:
    """Returns `file.py:12` of the innermost frame outside the package (recipes count as outside), or None."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        ours = file.startswith(_PACKAGE) and not file.startswith(_RECIPES)
        if not (ours or file.startswith("<") or os.path.dirname(file) == _LIBRARY):
            relative = os.path.relpath(file)
            return f"{file if relative.startswith('..') else relative}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


def check_dtype(operation: str, dtype: object) -> None:
    """Rejects a dtype that is not the engine's: a name, or another library's type."""
    if not isinstance(dtype, DType):
        raise refusal(operation, "not an element type", found=repr(dtype), expected="one such as engine.float32")


def describe(values: Sequence[Any]) -> str:
    """Returns dtypes and shapes of nodes or tensors, as in `float32[3, 4] and int32[2]`."""
    return " and ".join(f"{value.dtype}{list(value.shape)}" for value in values) or "nothing"


def refusal(
    operation: str, problem: str, *, found: object = None, expected: object = None, hint: str | None = None,
    kind: type[ArgumentError] = ArgumentError,
) -> TrainerError:  # fmt: skip
    """Returns the error to raise when `operation` can't handle its arguments."""
    kind = IndexingError if operation == "index" else kind
    return kind(f"{operation}: {problem}", where=user_line(), found=found, expected=expected, hint=hint)
