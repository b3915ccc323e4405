"""Arguments of a traced step: the memory of arrays and tensors, and the user's name of each."""

from __future__ import annotations

import enum
import inspect
import itertools
import re
import sys
import types
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import targets
from trainer.engine.graph import dtypes
from trainer.engine.graph.errors import user_line
from trainer.engine.graph.storage import CHANNELS_LAST, Layout, Storage, aligned_empty
from trainer.engine.tensor import Tensor
from trainer.engine.tracing.constants import ARRAYS, is_module
from trainer.engine.tracing.pytree import flatten, own_attribute, slots_of

_EXPECTED = "arrays, tensors, numbers, strings, flags, or nested dictionaries, lists and tuples of these"
_HINT = "Pass the arrays in a dictionary, a tuple or a namedtuple."
_LONGEST = 4096
"""Maximum number of attribute values of an object that are searched for arrays."""

_FLAGS = (
    str, bytes, bool, type(None), enum.Enum, type, np.dtype, dtypes.DType,
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType,
)  # fmt: skip
_LEAF = re.compile(r"\[(?:0\]\[(\d+)|1\]\['(\w+)')\](.*)")


def name_of(function: Callable[..., Any], where: str) -> str:
    """The user's name of a leaf of (arguments, keyword arguments): `batch['image']` for `[0][0]['image']`."""
    found = _LEAF.match(where)
    assert found is not None, where
    position, name, rest = found.groups()
    if name is None:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [each.name for each in inspect.signature(function).parameters.values() if each.kind in kinds]
        name = names[int(position)] if int(position) < len(names) else f"number {position}"
    return name + rest


def as_storage(function: Callable[..., Any], where: str, value: Any) -> Storage | None:
    """The memory of an array or tensor among the arguments of `function`; None for other values."""
    if isinstance(value, Tensor):
        read = value._read("trace")
        if not read.is_state:
            return read
        with targets.lock:  # another thread's step may be writing
            return read.copied()  # this step may write to the state
    if not isinstance(value, np.ndarray | np.generic):
        return None
    array = np.asarray(value)
    if not (array.dtype.isnative and array.flags.aligned):  # big-endian, or a field of packed records: kernels read
        array = array.astype(array.dtype.newbyteorder("="), order="K")  # only aligned numbers in native byte order
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
        layout = CHANNELS_LAST  # decoded images keep their channels-last layout, which convolutions read directly
        array = array.transpose(CHANNELS_LAST.order)
    else:
        layout = Layout.row_major(array.ndim)
    contiguous = np.ascontiguousarray(array).reshape(-1)
    storage.put(contiguous if contiguous.size else aligned_empty(0, dtype.storage), layout)
    return storage


def flag(function: Callable[..., Any], where: str, value: Any) -> Hashable:
    """The part of the program's key for an argument that is neither an array nor a number.

    Values of Python's and NumPy's own classes are compared by equality, other objects by identity: their attributes
    are guarded.

    Raises:
        TrainerError: the value has no hash.
    """
    kind = type(value)
    if isinstance(value, _FLAGS):
        return kind, value
    if kind.__hash__ is None:
        raise _refused(function, where, "is not hashable, so it can't select a program", kind.__name__)
    package = kind.__module__.partition(".")[0]
    return kind, value if package == "numpy" or package in sys.stdlib_module_names else id(value)


def check_objects(function: Callable[..., Any], value: Any, where: str = "") -> None:
    """Rejects arguments whose arrays a program would hold as constants, and containers that can't be rebuilt.

    Raises:
        TrainerError: an object holds arrays, or a dictionary, list or tuple of a subclass has attributes.
    """
    if isinstance(value, dict | list | tuple):
        attribute = own_attribute(value)
        if attribute is not None:
            found = f"{type(value).__name__} with the attribute {attribute}"
            raise _refused(function, where, "has attributes in addition to its items", found)
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            check_objects(function, item, f"{where}[{key!r}]")
    elif not isinstance(value, (*_FLAGS, *ARRAYS, np.generic, int, float, complex)) and not is_module(type(value)):
        for name, attribute_value in (*getattr(value, "__dict__", {}).items(), *slots_of(value)):
            for _, leaf in itertools.islice(flatten(attribute_value), _LONGEST):
                if isinstance(leaf, np.ndarray) or (isinstance(leaf, Tensor) and not leaf.is_state):
                    found = f"{type(value).__name__} with arrays in the attribute {name}"
                    raise _refused(function, where, "is an object that holds arrays", found)


def _refused(function: Callable[..., Any], where: str, problem: str, found: str) -> TrainerError:
    return TrainerError(
        f"argument {name_of(function, where)} of a traced step {problem}",
        where=user_line(),
        found=found,
        expected=_EXPECTED,
        hint=_HINT,
    )
