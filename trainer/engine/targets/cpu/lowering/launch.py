"""Launches: the records of a CPU program before memory planning. A launch is one kernel on given buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from trainer.engine.program.work import Buffer, KernelSource, View, Work
from trainer.engine.targets.cpu.template import Template


@dataclass(frozen=True, slots=True)
class Address:
    """A position in a buffer, as a word of an argument block."""

    buffer: Buffer
    byte_offset: int = 0

    @classmethod
    def of(cls, view: View, byte_offset: int = 0) -> Address:
        """The address of a view's first element plus `byte_offset`."""
        assert view.buffer is not None
        return cls(view.buffer, view.offset * view.dtype.itemsize + byte_offset)


@dataclass(frozen=True, slots=True)
class Place:
    """The address of the word at `index` of the same argument block, as a word of it."""

    index: int


Word = int | Address | Place
"""A word of an argument block."""


def word_of(view: View) -> int | Address:
    """The word of an operand: its address, or the start value of an operand without a buffer."""
    return view.offset if view.buffer is None else Address.of(view)


class Renderable(Protocol):
    """An object that determines a kernel's code."""

    def render(self, name: str) -> str: ...
    def __hash__(self) -> int: ...


class Coded(Renderable, Protocol):
    """A kernel without parameters, which alone determines its code and number of tasks."""

    @property
    def tasks(self) -> int: ...


class Worded(Protocol):
    """A kernel whose code is determined by `coded`; kernels that differ only in `words` share it."""

    @property
    def tasks(self) -> int: ...
    @property
    def coded(self) -> Renderable: ...
    @property
    def words(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Routine:
    """The lowered form of an item without parameters. `keep`: an object that must live as long as the code runs;
    `scratch`: bytes of scratch memory per thread.
    """

    code: KernelSource
    words: tuple[int | View, ...]
    tasks: int
    keep: object = None
    scratch: int = 0

    @classmethod
    def of(cls, kernel: Coded, *words: int | View) -> Routine:
        return cls(KernelSource(kernel, kernel.render), words, kernel.tasks)

    @classmethod
    def worded(cls, kernel: Worded, *addresses: View) -> Routine:
        """Returns the routine of a kernel with numbers as words."""
        code = kernel.coded
        return cls(KernelSource(code, code.render), (*addresses, *kernel.words), kernel.tasks)


@dataclass(frozen=True, slots=True)
class Templated:
    """The spec of an item that a template computes; lowering chooses the template's parameters."""

    template: Template
    spec: Any


@dataclass(frozen=True, slots=True)
class Tunable:
    """The origin of a kernel: a template's parameters for a specification. Other parameters give the same bits."""

    template: Template
    spec: Any
    parameters: Any

    @property
    def source(self) -> KernelSource:
        """The source that renders the kernel."""
        kernel, parameters, spec = self.template.kernel, self.parameters, self.template.coded(self.spec)
        return KernelSource((spec, parameters, kernel), lambda name: kernel(spec, parameters).render(name))

    @property
    def tasks(self) -> int:
        return self.template.tasks(self.spec, self.parameters)

    @property
    def scratch(self) -> int:
        return self.template.scratch_bytes(self.spec, self.parameters)


@dataclass(eq=False, slots=True)
class Launch:
    """One kernel: its code, argument words, grid of tasks, scratch bytes of a thread, and the item that it computes.

    The kernel of a `tunable` launch can be rebuilt with other parameters: `with_parameters`. A repeat has no kernel
    but launches as its `body`. Its words begin with the words of the body; its tasks are the maximum over the body.
    """

    work: Work
    source: KernelSource
    words: list[Word]
    tasks: int
    scratch: int = 0
    tunable: Tunable | None = None
    body: tuple[Launch, ...] = ()

    @property
    def label(self) -> str:
        return self.work.label

    def coded(self) -> Iterator[Launch]:
        """The launches that have a kernel: itself, or those of its body, in order."""
        if not self.body:
            yield self
        for each in self.body:
            yield from each.coded()

    @property
    def reads(self) -> tuple[Buffer, ...]:
        return self.work.sources

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return self.work.targets

    def with_parameters(self, parameters: Any) -> Launch:
        """Returns the same work with a kernel of other parameters."""
        assert self.tunable is not None
        tunable = replace(self.tunable, parameters=parameters)
        return replace(self, source=tunable.source, tasks=tunable.tasks, scratch=tunable.scratch, tunable=tunable)
