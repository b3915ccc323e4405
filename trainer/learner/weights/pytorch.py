"""PyTorch's `.pt` and `.pth` files, read without PyTorch and without executing anything.

    zip (1.6 and later)    NAME/data.pkl: the containers; NAME/data/KEY: the memory of each storage
    legacy (before 1.6)    five consecutive pickles, then the memory of each storage

A tensor is a view of its storage with dtype, offset, sizes and strides, which are checked against its memory in the
file. Arrays are views of the mapped file, so that only used parts are read.

Formats: torch/serialization.py and torch/_utils.py of PyTorch.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import DType, bfloat16, bool_, float16, float32, float64, int32, int64, uint8
from trainer.learner.checkpoints.format import Array
from trainer.learner.weights.archive import Archive
from trainer.learner.weights.pickle_reader import unpickled

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001
MOST_PICKLE = 64 << 20
MOST_DEPTH, MOST_VISITS = 8, 1_000_000
WELL_KNOWN = ("state_dict", "model_state_dict", "model", "module", "net", "network", "weights", "params")
"""Keys under which training checkpoints store their model, in the order of the search."""

# name of a storage type or dtype -> its element type in the file, and after loading
_ELEMENTS: dict[str, tuple[np.dtype, DType]] = {
    "Double": (np.dtype("<f8"), float64), "float64": (np.dtype("<f8"), float64),
    "Float": (np.dtype("<f4"), float32), "float32": (np.dtype("<f4"), float32),
    "Half": (np.dtype("<f2"), float16), "float16": (np.dtype("<f2"), float16),
    "BFloat16": (np.dtype("<u2"), bfloat16), "bfloat16": (np.dtype("<u2"), bfloat16),
    "Long": (np.dtype("<i8"), int64), "int64": (np.dtype("<i8"), int64),
    "Int": (np.dtype("<i4"), int32), "int32": (np.dtype("<i4"), int32),
    "Short": (np.dtype("<i2"), int32), "int16": (np.dtype("<i2"), int32),
    "Char": (np.dtype("i1"), int32), "int8": (np.dtype("i1"), int32),
    "Byte": (np.dtype("u1"), uint8), "uint8": (np.dtype("u1"), uint8),
    "Bool": (np.dtype("u1"), bool_), "bool": (np.dtype("u1"), bool_),
}  # fmt: skip


@dataclass(frozen=True)
class Elements:
    """An element type by its name in the file: `stored` in memory, loaded as `dtype`."""

    stored: np.dtype
    dtype: DType


UNTYPED = Elements(np.dtype("u1"), uint8)


@dataclass(frozen=True)
class Storage:
    """The memory of one or several tensors: `count` elements under `key`."""

    elements: Elements
    key: str
    count: int


@dataclass(frozen=True)
class StoredTensor:
    """A view of a storage, in elements; checked to lie inside it."""

    storage: Storage
    elements: Elements
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


# --- what a file may name -----------------------------------------------------------------------------------------


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> StoredTensor:
    """torch._utils._rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, …)"""
    if not isinstance(storage, Storage):
        raise ValueError("a tensor without a storage")
    return _view(storage, storage.elements, offset, shape, strides)


def _tensor_of_dtype(
    storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any, hooks: Any, dtype: Any, *rest: Any
) -> StoredTensor:
    """torch._utils._rebuild_tensor_v3: an untyped storage and a dtype."""
    if not isinstance(storage, Storage) or not isinstance(dtype, Elements):
        raise ValueError("a tensor without a storage or a dtype")
    return _view(storage, dtype, offset, shape, strides)


def _view(storage: Storage, elements: Elements, offset: Any, shape: Any, strides: Any) -> StoredTensor:
    for numbers in ((offset,), shape, strides):
        if not isinstance(numbers, tuple) or not all(type(n) is int and 0 <= n < 1 << 48 for n in numbers):
            raise ValueError(f"a tensor of offset {offset}, size {shape}, stride {strides}"[:200])
    if len(shape) != len(strides) or len(shape) > 32:
        raise ValueError("as many strides as sizes are needed")
    room = storage.count * storage.elements.stored.itemsize // elements.stored.itemsize
    size = math.prod(shape)
    last = offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) if size else 0
    if last >= max(room, 1) or size > room:
        raise ValueError(f"a tensor of size {list(shape)}, stride {list(strides)} at {offset} of {room} elements")
    return StoredTensor(storage, elements, offset, shape, strides)


def _parameter(data: Any, *rest: Any) -> StoredTensor:
    """torch._utils._rebuild_parameter(data, requires_grad, backward_hooks)"""
    if not isinstance(data, StoredTensor):
        raise ValueError("a parameter without a tensor")
    return data


def _ordered(pairs: Any = ()) -> dict[Any, Any]:
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str | int | float | None)
        for pair in pairs
    ):
        raise ValueError("an ordered dictionary of no pairs")
    return dict(pairs)


def _size(extents: Any = ()) -> tuple[Any, ...]:
    if not isinstance(extents, list | tuple):
        raise ValueError("a size of no numbers")
    return tuple(extents)


def _device(*parts: Any) -> str:
    if not all(isinstance(part, str | int) for part in parts):
        raise ValueError("a device without a name")
    return ":".join(map(str, parts))


ALLOWED: dict[str, Any] = {
    "collections.OrderedDict": _ordered,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of_dtype,
    "torch._utils._rebuild_parameter": _parameter,
    "torch.Size": _size,
    "torch.device": _device,
    "torch.storage.UntypedStorage": UNTYPED,
    **{
        f"torch.{name}Storage" if name[0].isupper() else f"torch.{name}": Elements(*kinds)
        for name, kinds in _ELEMENTS.items()
    },
}
"""All names that a file may use."""


def _storage(identifier: Any) -> Storage:
    """Parses the persistent identifier ("storage", type, key, location, number of elements, view)."""
    if not isinstance(identifier, tuple) or len(identifier) not in (5, 6) or identifier[0] != "storage":
        raise ValueError("a reference that is not to a storage")
    elements, key, count = identifier[1], identifier[2], identifier[4]
    if not isinstance(elements, Elements) or not isinstance(key, str) or type(count) is not int or count < 0:
        raise ValueError("a storage without a type, a name or a size")
    if identifier[5:] not in ((), (None,)):
        raise ValueError("a storage that is a view of another")
    return Storage(elements, key, count)


# --- files --------------------------------------------------------------------------------------------------------

Memory = Callable[[Storage], memoryview]


def read_pytorch(path: Path, entry: str | None = None) -> dict[str, Array]:
    """The tensors of a state dictionary in a `.pt` or `.pth` file, by name; int8 and int16 are converted to int32.

    Args:
        entry: path of the state dictionary in the file, such as "state_dict" or "ema.model"; default: the outermost
            dictionary, or a key that training checkpoints usually have.

    Raises:
        TrainerError: no such file, a damaged one, or one that needs more than tensors.
    """
    where = str(path)
    with open(path, "rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    value, memory = _from_zip(path, content) if content[:4] == b"PK\x03\x04" else _from_legacy(content, where)
    found = _flat(_state_dictionary(value, entry, where), where)
    total = sum(math.prod(tensor.shape) * tensor.elements.stored.itemsize for tensor in found.values())
    if total > 16 * len(content):
        raise TrainerError("tensors that exceed their file", where=where, found=f"{total:,} bytes",
                           expected=f"about the file's size, {len(content):,} bytes")  # fmt: skip
    cache: dict[Storage, memoryview] = {}
    arrays = {}
    for name, tensor in found.items():
        if tensor.storage not in cache:
            cache[tensor.storage] = memory(tensor.storage)
        arrays[name] = _array(tensor, cache[tensor.storage], name, where)
    return arrays


def _from_zip(path: Path, content: mmap.mmap) -> tuple[Any, Memory]:
    where = str(path)
    archive = Archive(path, content)
    pickles = [name for name in archive.names if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise TrainerError("not a PyTorch file", where=where, expected="one data.pkl in the archive")
    prefix = pickles[0].removesuffix("data.pkl")
    if f"{prefix}constants.pkl" in archive.names:
        raise TrainerError(
            "a TorchScript program, which is code", where=where,
            hint="Save its weights: torch.save(torch.jit.load(path).state_dict(), 'weights.pt').",
        )  # fmt: skip
    if f"{prefix}byteorder" in archive.names and archive.read(f"{prefix}byteorder", 16) != b"little":
        raise TrainerError("a file of a big-endian machine", where=where, expected="little-endian numbers")
    value, _ = unpickled(archive.read(pickles[0], MOST_PICKLE), ALLOWED, _storage, where)

    def memory(storage: Storage) -> memoryview:
        held = archive.memory(f"{prefix}data/{storage.key}")
        expected_bytes = storage.count * storage.elements.stored.itemsize
        if len(held) != expected_bytes:
            raise TrainerError(f"the size of storage {storage.key} doesn't match", where=where,
                               found=f"{len(held)} bytes", expected=f"{expected_bytes} bytes")  # fmt: skip
        return held

    return value, memory


def _from_legacy(content: mmap.mmap, where: str) -> tuple[Any, Memory]:
    """Reads five pickles: magic number, version, facts about the machine, the containers, the storages' keys; then the
    number of elements and the memory of each storage.
    """
    if content[:2] not in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise TrainerError(
            "not a PyTorch file", where=where, expected="a zip archive, or the format before PyTorch 1.6"
        )
    head = content[:MOST_PICKLE]
    used: dict[str, Storage] = {}

    def noted(identifier: Any) -> Storage:
        storage = _storage(identifier)
        if used.setdefault(storage.key, storage) != storage:
            raise ValueError("a storage of two sizes")
        return storage

    magic, end = unpickled(head, {}, noted, where)
    if magic != LEGACY_MAGIC:
        raise TrainerError("a pickle, but none of PyTorch", where=where)
    version, end = unpickled(head, {}, noted, where, end)
    machine, end = unpickled(head, {}, noted, where, end)
    if version != LEGACY_PROTOCOL or not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise TrainerError(
            "a PyTorch file of an unknown version or from a big-endian machine", where=where, found=version
        )
    value, end = unpickled(head, ALLOWED, noted, where, end)
    keys, end = unpickled(head, {}, noted, where, end)
    places: dict[str, int] = {}
    for key in keys if isinstance(keys, list) else []:
        if not isinstance(key, str) or key in places or key not in used:
            raise TrainerError("damaged file: invalid list of storages", where=where, found=str(key)[:80])
        count = int.from_bytes(content[end : end + 8], "little")
        places[key] = end + 8
        end += 8 + count * used[key].elements.stored.itemsize
        if count != used[key].count or end > len(content):
            raise TrainerError(f"damaged file: storage {key}", where=where, found=f"{count} elements",
                               expected=f"{used[key].count}, within the file")  # fmt: skip

    def memory(storage: Storage) -> memoryview:
        if storage.key not in places:
            raise TrainerError(f"damaged file: storage {storage.key} is missing", where=where)
        start = places[storage.key]
        return memoryview(content)[start : start + storage.count * storage.elements.stored.itemsize]

    return value, memory


def _array(tensor: StoredTensor, memory: memoryview, name: str, where: str) -> Array:
    kind, dtype = tensor.elements.stored, tensor.elements.dtype
    flat = np.frombuffer(memory, kind, len(memory) // kind.itemsize)
    if not math.prod(tensor.shape):
        return Array(np.empty(tensor.shape, dtype.storage), dtype)
    strides = [stride * kind.itemsize for stride in tensor.strides]
    view = np.lib.stride_tricks.as_strided(flat[tensor.offset :], tensor.shape, strides, writeable=False)
    if dtype is bool_:
        if view.max() > 1:
            raise TrainerError(f"{name} has invalid booleans", where=where, found=int(view.max()), expected="0 or 1")
        return Array(view.view(np.bool_), dtype)
    return Array(view.astype(dtype.storage, copy=False), dtype)


# --- the state dictionary within ----------------------------------------------------------------------------------


def _state_dictionary(value: Any, entry: str | None, where: str) -> Any:
    if entry is not None:
        for name in entry.split("."):
            if not isinstance(value, dict) or name not in value:
                known = _names(value) if isinstance(value, dict) else type(value).__name__
                raise TrainerError(f"the file has no entry {entry!r}", where=where, found=known)
            value = value[name]
        return value
    if isinstance(value, dict) and not any(isinstance(item, StoredTensor) for item in value.values()):
        return next((value[name] for name in WELL_KNOWN if isinstance(value.get(name), dict)), value)
    return value


def _flat(value: Any, where: str) -> dict[str, StoredTensor]:
    """The tensors of nested dictionaries by their keys, joined by dots; other values are left out."""
    found: dict[str, StoredTensor] = {}
    visits = 0

    def visit(item: Any, path: str, depth: int) -> None:
        nonlocal visits
        visits += 1
        if visits > MOST_VISITS:
            raise TrainerError(f"more than {MOST_VISITS:,} values in the file's dictionaries", where=where)
        if isinstance(item, StoredTensor):
            if path in found:
                raise TrainerError(f"two tensors are named {path[:80]!r}", where=where)
            found[path] = item
        elif isinstance(item, dict) and depth < MOST_DEPTH:
            for key, inner in item.items():
                visit(inner, f"{path}.{key}" if path else str(key), depth + 1)

    if isinstance(value, dict):
        visit(value, "", 0)
    if not found:
        raise TrainerError(
            "no tensors by name in the file", where=where,
            found=_names(value) if isinstance(value, dict) else type(value).__name__, expected="a state dictionary",
            hint="`entry` names the dictionary inside the file.",
        )  # fmt: skip
    return found


def _names(value: dict[Any, Any]) -> str:
    return ", ".join(str(key)[:80] for key in list(value)[:20]) or "nothing"
