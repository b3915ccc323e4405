"""Work: the items of a program before a target lowers it.

An item describes the computation and its arrays, but not their place in memory, the number of tasks, or the processor.
A `View` is an operand; `Work` is one item; passes take and return lists of items in the order in which they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, Primitive, Shape
from trainer.engine.graph.storage import Storage
from trainer.engine.program.spec import Epilogue, Instruction

NOTHING = Epilogue()


@dataclass(eq=False, slots=True)
class Buffer:
    """A dense array of a program. It is the memory of a leaf or state (`storage`), of a result (`result`) or of the
    program itself (`kept`); else it is in the arena. `shape` is the logical shape, if the buffer holds a node of the
    graph. `unread`: an output that nothing reads; its item may skip it.
    """

    size: int
    dtype: DType
    label: str
    storage: Storage | None = None
    result: int | None = None
    shape: tuple[int, ...] | None = None
    kept: bool = False
    unread: bool = False

    @property
    def nbytes(self) -> int:
        return max(1, self.size) * self.dtype.itemsize

    @property
    def is_aligned(self) -> bool:
        """Whether it begins at a multiple of 16 bytes."""
        return self.storage is None or self.storage.is_aligned

    @property
    def in_arena(self) -> bool:
        return self.storage is None and self.result is None and not self.kept


def place_of(buffer: Buffer) -> object:
    """A key of a buffer's memory: buffers of one state or of one result are the same memory."""
    if buffer.in_arena or buffer.kept:
        return buffer
    return ("state", id(buffer.storage)) if buffer.storage is not None else ("result", buffer.result)


def places_of(buffers: Iterable[Buffer]) -> set[object]:
    """The keys of the memory of `buffers`."""
    return {place_of(buffer) for buffer in buffers}


@dataclass(frozen=True, slots=True)
class View:
    """An operand: the element at `index` is at `offset + sum(strides[axis] * index[axis])` in `buffer`, in elements.

    Without a buffer, this number is the operand's value. `name` is the name of the node, for labels.
    """

    buffer: Buffer | None
    dtype: DType
    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0
    name: str = field(default="", compare=False)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)


class KernelSource:
    """The key of a kernel's code: equal keys have the same code. The hash is cached: a key holds whole bodies."""

    __slots__ = ("_hash", "key", "render")

    def __init__(self, key: Hashable, render: Callable[[str], str]) -> None:
        self.key, self.render, self._hash = key, render, hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, KernelSource) and self._hash == other._hash and self.key == other.key
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A primitive with its attributes; `shape` and `dtype` are those of its result before the epilogue."""

    operation: Primitive
    attributes: tuple[Any, ...]
    shape: Shape
    dtype: DType

    @classmethod
    def of(cls, node: Node) -> Call:
        return cls(node.operation, node.attributes, node.shape, node.dtype)

    def attribute(self, name: str) -> Any:
        return self.attributes[self.operation.attributes.index(name)]


@dataclass(frozen=True, slots=True)
class Reduce:
    """Reductions along `axes`, one operation for each stored term, in the order of `spec.Reduction`."""

    operations: tuple[str, ...]
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a reduction in blocks of `block` elements. "row": the reduced axis is the last one of the iteration
    space; "column": the last but one. Along this axis, `writes` have the stride from one block to the next.
    """

    operations: tuple[str, ...]
    orientation: Literal["row", "column"]
    block: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Loops over the same `count` rows, run on `share` rows at a time. Part i runs over `inner[i]` elements of a row in
    `blocks[i]` blocks. Only these loops use the `local` buffers, which need memory for `share` rows.
    """

    count: int
    share: int
    inner: tuple[int, ...]
    blocks: tuple[int, ...]
    local: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class StandIn:
    """The operand `view`, which parts of a repeat access as `storage`; it advances by `step` elements each time."""

    storage: Storage
    view: View
    step: int
    is_written: bool


@dataclass(frozen=True, slots=True)
class Repeat:
    """The parts of an item, in turn, `count` times. Before each time but the first, operands advance.

    Either every operand advances by `steps`: for each part, one number of elements for each read, then for each write;
    without a buffer, the value increases. Or `stand_ins` advance; all other buffers belong to the parts and stay.
    """

    count: int
    steps: tuple[tuple[int, ...], ...] = ()
    stand_ins: tuple[StandIn, ...] = ()


Kind = Literal[
    "loop", "reduction", "contraction", "attention", "index", "window", "scan", "order", "copy", "rows", "group",
    "statistics", "custom", "host", "repeat", "collective",
]  # fmt: skip
SCATTERS = ("scatter_add_along", "scatter_prod_along", "scatter_max_along", "scatter_min_along")
INDEXED = ("gather", "scatter_add", "take_along", *SCATTERS)
SCANS = ("cumulative_sum", "cumulative_prod")
RECURRENT = ("rnn_scan", "rnn_scan_gradient", "rnn_scan_ragged", "rnn_scan_ragged_gradient")
KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("matmul", "convolution", "convolution_input_gradient", "convolution_weight_gradient"), "contraction"
    ),
    **dict.fromkeys(INDEXED, "index"),
    **dict.fromkeys(("window_argmax", "window_max", "window_max_gradient", "resample"), "window"),
    "gather_sum": "index",
    **dict.fromkeys(("attention", "attention_gradient"), "attention"),
    **dict.fromkeys((*SCANS, *RECURRENT), "scan"),
    "custom": "custom",
    **dict.fromkeys(("argsort", "sort", "top_k", "suppress"), "order"),
    **dict.fromkeys(("host_call", "host_effect"), "host"),
}
"""The kind of item that computes each primitive which is neither a loop nor a reduction."""


Exchanges = tuple[tuple[Buffer, Buffer], ...]


@dataclass(eq=False, slots=True)
class Work:
    """One item of work.

    kind and spec: the computation; a target that expands items replaces their specs. reads and writes: the operands, in
    the spec's order; operands of `epilogue`, then of `prologue`, follow the others. extents: the iteration space of
    loops and reductions, outermost first, with as few axes as possible. body: their instructions; `stored` lists the
    instructions whose values are stored in `writes`. code: the target's code of a loop; items of equal code may be
    merged. in_place: (output, input) pairs: at each point, the item reads the input only at the element that it then
    writes, so the output may reuse the input's memory if the input ends here. parts: the items that were fused into
    this one. effect: the item has a side effect, so each run of the program runs it; an operand, such as a host call's
    token, keeps effects in order. line: the user's line of its last operation, if lines are recorded (`graph.lines`).
    """

    kind: Kind
    spec: Any
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    label: str
    extents: tuple[int, ...] = ()
    body: tuple[Instruction, ...] = ()
    stored: tuple[int, ...] = ()
    epilogue: Epilogue = NOTHING
    prologue: Epilogue = NOTHING
    code: KernelSource | None = None
    in_place: Exchanges = ()
    parts: tuple[Work, ...] = ()
    effect: bool = False
    line: str | None = None
    sources: tuple[Buffer, ...] = field(init=False)
    """Each buffer that is read, once."""
    targets: tuple[Buffer, ...] = field(init=False)
    """Each buffer that is written, once."""
    buffers: tuple[Buffer, ...] = field(init=False)
    """Each buffer that is touched, once; those that are read first."""

    def __post_init__(self) -> None:
        self.sources = tuple(dict.fromkeys([view.buffer for view in self.reads if view.buffer is not None]))
        self.targets = tuple(dict.fromkeys([view.buffer for view in self.writes if view.buffer is not None]))
        self.buffers = tuple(dict.fromkeys((*self.sources, *self.targets)))

    @property
    def points(self) -> int:
        """Points of the iteration space."""
        return math.prod(self.extents)


def conflict(first: Work, second: Work) -> bool:
    """Whether one item writes memory that the other touches."""
    touched, others = places_of(first.buffers), places_of(second.buffers)
    return bool(places_of(first.targets) & others or places_of(second.targets) & touched)


def joined(
    kind: Kind, spec: Any, parts: Sequence[Work], label: str, kept: Set[Buffer] = frozenset(), in_place: Exchanges = ()
) -> Work:
    """One item for `parts`, with the operands of each part in turn, except those in `kept`, its private buffers."""
    reads, writes = (
        tuple([view for part in parts for view in side(part) if view.buffer not in kept])
        for side in (attrgetter("reads"), attrgetter("writes"))
    )
    return Work(kind, spec, reads, writes, label, in_place=in_place, parts=tuple(parts))
