"""Launches: what a program is made of before memory is planned. A launch is one kernel on given buffers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.cpu.kernels.templates import Template


@dataclass(eq=False, slots=True)
class Buffer:
    """A dense array of a program. With `storage` it is a leaf's or a result's memory; else it lives in the arena.
    `shape` is the logical one, where it holds a node of the graph.
    """

    size: int
    dtype: DType
    label: str
    storage: Storage | None = None
    result: int | None = None
    shape: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        return max(1, self.size) * self.dtype.itemsize

    @property
    def in_arena(self) -> bool:
        return self.storage is None and self.result is None


def place_of(buffer: Buffer) -> object:
    """What holds a buffer's memory: buffers of one state or of one result are the same memory."""
    if buffer.in_arena:
        return buffer
    return ("state", id(buffer.storage)) if buffer.storage is not None else ("result", buffer.result)


@dataclass(frozen=True, slots=True)
class Address:
    """A place in a buffer, as a word of an argument block."""

    buffer: Buffer
    byte_offset: int = 0


class KernelSource:
    """A kernel before it is rendered: equal keys are the same code. Its hash is kept: a key holds whole bodies."""

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
class Tunable:
    """Where a kernel came from: a template's parameters for a specification; other parameters give the same bits."""

    template: Template
    spec: Any
    parameters: Any

    @property
    def source(self) -> KernelSource:
        """The kernel, to be rendered."""
        template, spec, parameters = self.template, self.spec, self.parameters
        return KernelSource((spec, parameters, template.render), lambda name: template.render(spec, parameters, name))

    @property
    def tasks(self) -> int:
        return self.template.tasks(self.spec, self.parameters)

    @property
    def scratch(self) -> int:
        return self.template.scratch_bytes(self.spec, self.parameters)


@dataclass(eq=False, slots=True)
class Launch:
    """One kernel: its code, argument words, grid of tasks, and the buffers it reads and writes.

    The kernel of a launch that is `tunable` may be made again with other parameters: `with_parameters`.
    `in_place` lists (output, input): at each point the kernel reads the input where it then writes the output and
    nowhere else, so the output may take the input's memory where that ends here. `parts` are the launches
    that were merged into this one.
    """

    source: KernelSource
    words: list[int | Address]
    tasks: int
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    label: str
    scratch: int = 0
    tunable: Tunable | None = None
    in_place: tuple[tuple[Buffer, Buffer], ...] = ()
    parts: tuple[Launch, ...] = ()

    def with_parameters(self, parameters: Any) -> Launch:
        """The same work by a kernel of other parameters."""
        assert self.tunable is not None
        tunable = replace(self.tunable, parameters=parameters)
        return replace(self, source=tunable.source, tasks=tunable.tasks, scratch=tunable.scratch, tunable=tunable)
