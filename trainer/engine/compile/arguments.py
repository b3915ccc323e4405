"""Arguments of a traced step: the memory of arrays and tensors, and what the user calls each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.compile.convolutions import CHANNELS_LAST
from trainer.engine.graph import dtypes
from trainer.engine.graph.errors import user_line
from trainer.engine.graph.storage import Layout, Storage, aligned_empty
from trainer.engine.tensor import Tensor

_LEAF = re.compile(r"\[(?:0\]\[(\d+)|1\]\['(\w+)')\](.*)")


def name_of(function: Callable[..., Any], where: str) -> str:
    """A leaf of (arguments, keyword arguments) as the user knows it: `batch['image']` for `[0][0]['image']`."""
    found = _LEAF.match(where)
    assert found is not None, where
    position, name, rest = found.groups()
    if name is None:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [each.name for each in inspect.signature(function).parameters.values() if each.kind in kinds]
        name = names[int(position)] if int(position) < len(names) else f"number {position}"
    return name + rest


def as_storage(function: Callable[..., Any], where: str, value: Any) -> Storage | None:
    """The memory of an array or tensor among the arguments of `function`; None for what is no array."""
    if isinstance(value, Tensor):
        read = value._read("trace")
        return Storage.of(read.view(), read.dtype) if read.is_state else read  # the step may write to the state
    if not isinstance(value, np.ndarray | np.generic):
        return None
    array = np.asarray(value)
    dtype = dtypes.from_numpy(array.dtype)
    if dtype is None:
        raise TrainerError(
            f"argument {name_of(function, where)} of a traced step has no element type of the engine",
            where=user_line(),
            found=f"{array.dtype} of shape {array.shape}",
            expected=", ".join(map(repr, dtypes.ALL)),
        )
    storage = Storage(array.shape, dtype)
    if array.ndim == 4 and not array.flags.c_contiguous and array.transpose(CHANNELS_LAST.order).flags.c_contiguous:
        storage.layout = CHANNELS_LAST  # images as they were decoded: taken as they lie, where convolutions want them
        array = array.transpose(CHANNELS_LAST.order)
    else:
        storage.layout = Layout.row_major(array.ndim)
    contiguous = np.ascontiguousarray(array).reshape(-1)
    storage.memory = contiguous if contiguous.size else aligned_empty(0, dtype.storage)
    return storage


def no_hash(function: Callable[..., Any], leaves: Sequence[tuple[str, Any]]) -> TrainerError:
    """The error for an argument that can't choose a program."""
    where, value = next(
        (where, value)
        for where, value in leaves
        if not isinstance(value, np.ndarray | np.generic | Tensor) and type(value).__hash__ is None
    )
    return TrainerError(
        f"argument {name_of(function, where)} of a traced step can't be told apart from others: it has no hash",
        where=user_line(),
        found=type(value).__name__,
        expected="arrays, tensors, numbers, strings, flags, or nested dictionaries, lists and tuples of these",
    )
