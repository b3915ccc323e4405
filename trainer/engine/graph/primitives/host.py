"""Host calls: Python functions on NumPy arrays as nodes of the graph.

The primitives are not in `TABLE` or `BUNDLES`: a program file can't hold a Python function.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, Outputs, Primitive, make_node
from trainer.engine.graph.primitives.output import bundle_dtype


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A Python function with the dtypes of its arguments, and the shapes and dtypes of its results.

    `line` is the user's line, for errors; calls that differ only in it are equal. An effect has an additional last
    output, its token: true once the function has run. The next effect reads it, so effects run in call order.
    """

    function: Callable[..., Any] = field(compare=False)
    arguments: tuple[DType, ...]
    results: Outputs
    is_effect: bool
    line: str | None = field(compare=False)
    gradient: Callable[[Node, Sequence[Node | None]], Sequence[Node | None]] | None = field(compare=False, default=None)
    """(bundle, cotangents of its outputs) -> a node or None for each argument. None: derivatives raise an error."""

    identity: Hashable = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", _identity(self.function))

    @property
    def outputs(self) -> Outputs:
        return (*self.results, ((), dtypes.bool_)) if self.is_effect else self.results

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    def call(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Returns the outputs for `arrays`, where tokens may follow the arguments; bfloat16 is float32 in both.

        Raises:
            TrainerError: the function raised an exception, or returned arrays of other shapes or dtypes.
        """
        try:
            returned = self.function(*arrays[: len(self.arguments)])
        except Exception as error:
            raise self._refusal(f"{self.name} raised {type(error).__name__}", str(error)) from error
        count = len(self.results)
        if count > 1 and not (isinstance(returned, tuple | list) and len(returned) == count):
            found = f"{len(returned)} results" if isinstance(returned, tuple | list) else type(returned).__name__
            raise self._refusal(f"{self.name} returned another number of results", found, f"a tuple of {count}")
        values = [self._checked(*pair) for pair in enumerate((returned,) if count == 1 else returned if count else ())]
        return (*values, np.asarray(True)) if self.is_effect else tuple(values)

    def _checked(self, index: int, value: Any) -> np.ndarray:
        shape, dtype = self.results[index]
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise self._refusal(f"{self.name} returned no array as result {index}", str(error)) from error
        kind = host_dtype(dtype)
        if array.shape != shape or array.dtype != kind:
            found, expected = (f"{np.dtype(each)}{list(extents)}" for each, extents in
                               ((array.dtype, array.shape), (kind, shape)))  # fmt: skip
            raise self._refusal(f"{self.name} returned another shape or dtype as result {index}", found, expected)
        return array

    def _refusal(self, problem: str, found: str, expected: str | None = None) -> TrainerError:
        return TrainerError(f"host_call: {problem}", where=self.line, found=found, expected=expected)


def host_dtype(dtype: DType) -> np.dtype:
    """The NumPy dtype of arrays that a host function takes and returns for tensors of `dtype`."""
    return dtypes.float32.storage if dtype is dtypes.bfloat16 else dtype.storage


def _identity(function: Callable[..., Any]) -> Hashable:
    """Returns equal keys for functions that do the same: one that each trace of a step redefines keeps its key."""
    if isinstance(function, FunctionType) and not function.__defaults__ and not function.__kwdefaults__:
        return (function.__code__, *[id(cell.cell_contents) for cell in function.__closure__ or ()])
    try:
        hash(function)
    except TypeError:
        return id(function)
    return function


def _outputs(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Outputs:
    call: HostFunction = attributes[0]
    return call.outputs


def _reference(attributes: tuple[Any, ...], *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    call: HostFunction = attributes[0]
    taken = [np.array(x, host_dtype(dtype), order="C") for x, dtype in zip(arrays, call.arguments, strict=False)]
    with np.errstate(all="warn"):
        return call.call(taken)


def _primitive(name: str, *, effect: bool) -> Primitive:
    return Primitive(
        name, "bundle", lambda inputs, attributes: (),
        lambda inputs, attributes: bundle_dtype(_outputs(inputs, attributes)), _reference, ("call",), _outputs, effect,
    )  # fmt: skip


HOST_CALLS = ("host_call", "host_effect")
"""Names of the primitives that call Python; calls with effects run in order."""

_HOST_CALL, _HOST_EFFECT = (_primitive(name, effect=name == "host_effect") for name in HOST_CALLS)


def host_call(call: HostFunction, inputs: Sequence[Node]) -> Node:
    """The bundle of `call` on `inputs`; the last input of an effect may be the token of another effect."""
    return make_node(_HOST_EFFECT if call.is_effect else _HOST_CALL, tuple(inputs), (call,))
