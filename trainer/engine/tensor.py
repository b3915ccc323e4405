"""Tensor: a lazy, immutable handle to a node of the graph; conversion of values to tensors."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

import numpy as np

from trainer.engine import history, targets, tracing
from trainer.engine.evaluation import compute
from trainer.engine.graph import dtypes, half, lines
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import check_dtype, describe, refusal
from trainer.engine.graph.node import Node, Shape, nobody
from trainer.engine.graph.primitives.compose import transpose_last
from trainer.engine.graph.storage import HOST, Storage
from trainer.engine.promotion import beside, default_of, promoted

NO_HISTORY = sys.maxsize
"""`_since` of a tensor without history."""

NUMBERS = (bool, int, float, complex)


API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""Versions of the Python array API standard that the engine follows."""

watcher: ContextVar[Any] = ContextVar("watcher", default=None)
"""The receiver of each new tensor and assignment inside `engine.eager`, or None; used while lines are recorded."""


class Tensor:
    """An n-dimensional array that is computed when it is read.

    Operators and methods follow the Python array API standard. Handles compare by identity as dictionary keys; `==`
    compares elements. Each handle is a separate value, even if two have equal numbers: derivatives with respect to one
    do not include uses of another. Reading a value does not affect its derivatives.
    """

    __slots__ = ("__weakref__", "_since", "node")

    node: Node
    _since: int  # no node of the history except leaves is older, so it has at most node.sequence - _since nodes

    __array_ufunc__ = None  # NumPy's operators defer to ours

    is_state: ClassVar[bool] = False
    """Whether `assign` changes it: see `State`."""

    def __init__(self, node: Node) -> None:
        self.node = node = node if node.handle is None else p.alias(node)
        node.handle = weakref.ref(self)
        self._since = NO_HISTORY if node.value is not None else node.sequence

    # --- properties ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """Extents, row-major."""
        return self.node.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.node.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.node.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.node.shape)

    @property
    def device(self) -> str:
        """The device that holds the value, or that would compute it."""
        current, value = targets.current(), self.node.value
        return current.name if value is None or value.owner in (current.memory, HOST) else value.owner.name

    @property
    def T(self) -> Tensor:
        """The transposed matrix; the tensor must have two axes."""
        if self.ndim != 2:
            raise refusal(
                "T", "transposes a matrix", found=f"{self.ndim} axes", expected="2", hint="Use matrix_transpose."
            )
        return wrapped(transpose_last(self.node), self)

    @property
    def mT(self) -> Tensor:
        """The last two axes swapped."""
        if self.ndim < 2:
            raise refusal("matrix_transpose", "swaps two axes", found=describe([self]), expected="at least two axes")
        return wrapped(transpose_last(self.node), self)

    # --- reading ------------------------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """A copy of the values as a NumPy array; bfloat16, which NumPy lacks, becomes float32."""
        storage = self._read("numpy")
        view = storage.view()
        return half.from_bits(view) if storage.dtype is dtypes.bfloat16 else np.array(view, order="C")

    def read_into(self, target: memoryview) -> None:
        """Copies the values in row-major order into the caller's memory: bytes of the tensor's size."""
        storage = self._read("read_into")
        is_flat = len(storage.shape) <= 1 and storage.shape != (0,)
        values = storage.flat() if is_flat else np.ascontiguousarray(storage.view()).reshape(-1)
        target[:] = values.data.cast("B")[: len(target)]

    def item(self) -> Any:
        """The only element as a Python number: bool, int, float or complex."""
        return self._scalar("item")

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return self.numpy().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a tensor gives NumPy a copy of its values; copy=False is impossible")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """The values for another library: the memory itself, read-only, if the library supports that (DLPack 1.0), else
        a copy.

        With `copy=False` older libraries get the memory too, and must not write to it.

        Raises:
            BufferError: `copy` is False, and the value belongs to a state, which steps write to.
        """
        if self.dtype is dtypes.bfloat16:
            raise refusal(
                "__dlpack__", "NumPy does not support bfloat16", hint="Convert with `.astype(engine.float32)`."
            )
        storage = self._read("__dlpack__")
        knows_read_only = max_version is not None and max_version >= (1, 0)
        if storage.is_state or storage.owner is not HOST:
            if copy is False:
                raise BufferError("the memory of a state is not shared: steps write to it")
        elif copy is False or (copy is None and knows_read_only):
            view = storage.view()
            if knows_read_only:
                view.flags.writeable = False
            return view.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)
        return self.numpy().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if api_version not in (None, *API_VERSIONS):
            expected = ", ".join(API_VERSIONS)
            raise refusal(
                "__array_namespace__", "unsupported version of the standard", found=api_version, expected=expected
            )
        return sys.modules["trainer.engine"]

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise refusal(
                "index", "only integers index", found=f"{self.dtype}{list(self.shape)}", expected="an integer"
            )
        return int(self._scalar("index"))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a tensor without axes")
        return (self[index] for index in range(self.shape[0]))

    def _read(self, operation: str) -> Storage:
        """The storage of the value, computed if necessary; afterwards the handle refers to this memory."""
        recorder = tracing.active()
        if recorder is not None:
            recorder.on_read(operation)
        node = self.node
        if node.value is None:
            with targets.lock:
                compute([node])
                self._computed()
        assert node.value is not None
        return node.value

    def _scalar(self, operation: str) -> Any:
        if self.size != 1:
            raise refusal(
                operation, "one element is needed", found=f"{self.dtype}{list(self.shape)}", expected="size 1"
            )
        memory = self._read(operation).flat()
        return (half.from_bits(memory) if self.dtype is dtypes.bfloat16 else memory).item(0)

    def _computed(self) -> None:
        """Called when the node has its value."""
        self._since = NO_HISTORY

    def rebind(self, other: Tensor) -> None:
        """Takes the value of `other`, of the same shape and dtype: in-place assignment.

        Raises:
            TrainerError: the tensor was created outside of the traced step that assigns to it.
        """
        recorder = tracing.active()
        if recorder is not None and self.node.sequence < recorder.began:
            raise refusal(
                "setitem",
                "a traced step assigns to a tensor that was created outside of it",
                found=describe([self]),
                expected="a tensor of the step, or a State",
                hint="Make it a State, or assign to a copy: `x = +x`.",
            )
        self.node.handle, self.node = nobody, other.node
        self.node.handle, self._since = weakref.ref(self), other._since

    def __copy__(self) -> Tensor:
        return wrapped(self.node, self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return wrapped(self.node, self)

    def __repr__(self) -> str:
        what = f"dtype={self.dtype}"
        if tracing.active() is not None:
            return f"Tensor(shape={self.shape}, {what}, being traced)"
        return f"Tensor({np.array2string(self.numpy(), separator=', ', prefix='Tensor(')}, {what})"

    def __format__(self, specification: str) -> str:
        """Formats a tensor without axes like the number that it holds."""
        return format(self.item() if specification and not self.ndim else str(self), specification)

    __hash__ = object.__hash__

    # --- methods that are functions of the standard too; the operators are attached in functions/operators.py ------

    def astype(self, dtype: DType) -> Tensor:
        """The values rounded to `dtype` as a new tensor; see the primitive `cast`."""
        return wrapped(cast(self.node, dtype), self)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The value in the memory of `device`, computed on the current one; the tensor itself if it is already there.

        Operations move their inputs to the device that computes them, so this only determines when that happens.
        """
        memory, storage = targets.get(device).memory, self._read("to_device")
        if storage.owner is memory:
            return self
        with targets.lock:
            moved = storage.copied()
            moved.move(memory)
        return Tensor(p.buffer(moved))

    __eq__: Callable[..., Tensor]  # type: ignore[assignment]
    __ne__: Callable[..., Tensor]  # type: ignore[assignment]
    __add__: Callable[..., Tensor]
    __radd__: Callable[..., Tensor]
    __sub__: Callable[..., Tensor]
    __rsub__: Callable[..., Tensor]
    __mul__: Callable[..., Tensor]
    __rmul__: Callable[..., Tensor]
    __truediv__: Callable[..., Tensor]
    __rtruediv__: Callable[..., Tensor]
    __floordiv__: Callable[..., Tensor]
    __rfloordiv__: Callable[..., Tensor]
    __mod__: Callable[..., Tensor]
    __rmod__: Callable[..., Tensor]
    __pow__: Callable[..., Tensor]
    __rpow__: Callable[..., Tensor]
    __matmul__: Callable[..., Tensor]
    __rmatmul__: Callable[..., Tensor]
    __and__: Callable[..., Tensor]
    __rand__: Callable[..., Tensor]
    __or__: Callable[..., Tensor]
    __ror__: Callable[..., Tensor]
    __xor__: Callable[..., Tensor]
    __rxor__: Callable[..., Tensor]
    __lshift__: Callable[..., Tensor]
    __rlshift__: Callable[..., Tensor]
    __rshift__: Callable[..., Tensor]
    __rrshift__: Callable[..., Tensor]
    __lt__: Callable[..., Tensor]
    __le__: Callable[..., Tensor]
    __gt__: Callable[..., Tensor]
    __ge__: Callable[..., Tensor]
    __neg__: Callable[..., Tensor]
    __pos__: Callable[..., Tensor]
    __abs__: Callable[..., Tensor]
    __invert__: Callable[..., Tensor]
    __getitem__: Callable[..., Tensor]
    __setitem__: Callable[..., None]
    __contains__: Callable[..., bool]
    reshape: Callable[..., Tensor]
    sum: Callable[..., Tensor]
    mean: Callable[..., Tensor]
    max: Callable[..., Tensor]
    min: Callable[..., Tensor]


_new_tensor = Tensor.__new__


def cast(node: Node, dtype: DType) -> Node:
    """`node` rounded to `dtype`; `node` itself if it has this dtype."""
    return node if node.dtype is dtype else p.cast(node, dtype)


def wrapped(node: Node, *sources: Tensor) -> Tensor:
    """Returns a handle to `node`, computed from `sources`; evaluates it if the unread history exceeds its limit.

    A node with a handle, or one that several users share, gets an alias.
    """
    if node.handle is not None:
        node = p.alias(node)
    tensor = _new_tensor(Tensor)
    tensor.node = node
    node.handle = weakref.ref(tensor)
    since = node.sequence
    for source in sources:
        if source._since < since:
            since = source._since
    tensor._since = since
    if node.sequence - since > history.UNREAD_LIMIT:
        _bound_history(tensor, sources)
    if lines.noting and (watch := watcher.get()) is not None and tracing.active() is None:
        watch.on_tensor(tensor)
    return tensor


def _bound_history(tensor: Tensor, sources: Sequence[Tensor]) -> None:
    """Measures the history; evaluates the tensor if it exceeds the limit, else stores the measured size in `_since`."""
    if tracing.active() is not None:
        return
    nodes, pages = history.cost(tensor.node)
    if nodes + pages > history.UNREAD_LIMIT:
        with targets.lock:
            compute([tensor.node, *(history.boundary(tensor.node) if pages > nodes else ())])
            tensor._computed()
        return
    tensor._since = tensor.node.sequence - min(nodes + pages, history.UNREAD_LIMIT * 3 // 4)
    for source in sources:
        if not source.is_state and source._since < tensor._since:
            source._since = tensor._since  # its history is part of the measured one


def evaluate(*tensors: Tensor) -> None:
    """Computes the values of `tensors` together, immediately."""
    recorder = tracing.active()
    if recorder is not None:
        recorder.on_read("evaluate")
    with targets.lock:
        compute([tensor.node for tensor in tensors])
        for tensor in tensors:
            tensor._computed()


# --- conversion ------------------------------------------------------------------------------------------


def as_tensor(value: Any, dtype: DType | None = None, operation: str = "asarray") -> Tensor:
    """`value` (a tensor, a Python number, an array, or nested lists of numbers) as a tensor. Arrays are copied."""
    if isinstance(value, Tensor):
        return value if dtype is None or value.dtype is dtype else value.astype(dtype)
    is_nan = isinstance(value, float) and value != value  # NaN has a sign, which a constant lacks
    if isinstance(value, NUMBERS) and not (isinstance(value, np.generic) or is_nan):
        if dtype is None:
            return Tensor(p.constant(value, default_of(value)))
        check_dtype(operation, dtype)
        array = np.asarray(value)
        _check_real(operation, array, dtype)
        is_converted = dtype.is_integer and array.dtype.kind in "biuf"  # a larger int is refused as a constant
        return Tensor(p.constant(p.cast_values(array, dtype).item() if is_converted else value, dtype))
    return Tensor(p.buffer(stored_copy(value, dtype, "", operation)))


def stored_copy(value: Any, dtype: DType | None, name: str, operation: str = "asarray") -> Storage:
    """`value` in new row-major memory, converted to `dtype` as `cast` does.

    Nested lists of Python floats are converted from float64, to float32 if no dtype is given. With a dtype, an array
    may have a NumPy dtype that tensors do not support (longdouble).

    Raises:
        TrainerError: the lists are ragged, or have elements that are neither bools nor numbers.
    """
    if isinstance(value, Tensor):
        if value.dtype is (dtype or value.dtype):
            with targets.lock:  # another thread's step may be writing to a state
                return Storage.of(value._read(operation).view(), value.dtype, name=name)
        value = value.numpy()
    if dtype is not None:
        check_dtype(operation, dtype)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise refusal(operation, "the lists are ragged", found=str(error), expected="rows of equal length") from None
    found = dtypes.from_numpy(array.dtype)
    if dtype is None and found is dtypes.float64 and not isinstance(value, np.ndarray | np.generic):
        dtype = dtypes.float32  # Python's floats have the default dtype
    if dtype is None and found is dtypes.complex128 and not isinstance(value, np.ndarray | np.generic):
        dtype = dtypes.complex64
    target = dtype or found
    if found is dtypes.bfloat16:  # a NumPy array with the bfloat16 of ml_dtypes
        array, found = array.astype(np.float32), dtypes.float32
    if target is None or array.dtype.kind not in "biufc":
        raise refusal(
            operation,
            "unsupported element type",
            found=f"{array.dtype} of shape {array.shape}",
            expected=", ".join(map(repr, dtypes.ALL)),
            hint="Convert the array first, or pass `dtype`.",
        )
    _check_real(operation, array, target)
    if target is not found:
        with np.errstate(all="ignore"):
            array = half.stored(p.cast_values(array, target), target)
    return Storage.of(array, target, name=name)


def _check_real(operation: str, array: np.ndarray, dtype: DType) -> None:
    """Raises if complex numbers would be converted to real ones."""
    if array.dtype.kind == "c" and not dtype.is_complex and dtype is not dtypes.bool_:
        hint = "Take the real part, the imaginary part or the absolute value first."
        raise refusal(operation, f"complex numbers are not of {dtype}", found=array.dtype, hint=hint)


def operands(operation: str, *values: Any) -> tuple[list[Node], list[Tensor]]:
    """Nodes of one dtype and shape for `values` (tensors, arrays, numbers), promoted and broadcast; and the tensors."""
    tensors = [value if isinstance(value, Tensor) else None for value in values]
    for index, value in enumerate(values):
        if tensors[index] is None and not isinstance(value, (*NUMBERS, np.generic)):
            tensors[index] = as_tensor(value, operation=operation)
    known = [tensor for tensor in tensors if tensor is not None]
    nodes = [tensor.node for tensor in known]
    numbers = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not known:
        lone = [as_tensor(value) for value in values]
        dtype = max((tensor.dtype for tensor in lone), key=dtypes.ALL.index)
        return [cast(tensor.node, dtype) for tensor in lone], lone
    dtype = promoted(operation, [node.dtype for node in nodes])
    for tensor, number in zip(tensors, numbers, strict=True):
        dtype = dtype if tensor is not None else beside(operation, number, dtype)
    shape = broadcast_shape(operation, [node.shape for node in nodes])
    result, position = [], 0
    for tensor, number in zip(tensors, numbers, strict=True):
        if tensor is None:
            result.append(p.full(shape, number, dtype))
        else:
            node = nodes[position]
            position += 1
            node = cast(node, dtype)
            result.append(node if node.shape == shape else p.broadcast(node, shape))
    return result, known


def broadcast_shape(operation: str, shapes: Sequence[Shape]) -> Shape:
    """The shape that `shapes` broadcast to.

    Raises:
        TrainerError: two extents along an axis differ and neither is 1.
    """
    result = shapes[0]
    for shape in shapes[1:]:
        if shape == result:
            continue
        rank = max(len(shape), len(result))
        padded = [(1,) * (rank - len(each)) + each for each in (result, shape)]
        if any(a != b and a != 1 and b != 1 for a, b in zip(*padded, strict=True)):
            raise refusal(
                operation,
                "shapes don't broadcast",
                found=" and ".join(str(list(each)) for each in shapes),
                expected="along each axis, counted from the last, equal extents or 1",
            )
        result = tuple([b if a == 1 else a for a, b in zip(*padded, strict=True)])
    return result
