"""A lowered program as text: the same on every host and in every process, and readable as a difference of two."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from tests.engine.golden.lowering import Graph, Lowered, graph_of, lowered
from tests.engine.golden.program import Program
from trainer.engine.graph.storage import Storage
from trainer.engine.program.work import Buffer, place_of
from trainer.engine.targets.cpu.lowering.launch import Address, Launch


@dataclass(frozen=True)
class Listing:
    """The launch list, and the text of each distinct kernel in the order of its first launch."""

    launches: str
    kernels: tuple[str, ...]
    launch_count: int

    @property
    def kernel_text(self) -> str:
        return "".join(f"kernel k{number}\n{text}\n" for number, text in enumerate(self.kernels))


def listing(program: Program) -> Listing:
    """The launches and kernels of a listed program."""
    graph = graph_of(program)
    return listing_of(graph, lowered(graph, program.numerics, program.bfloat16, program.machine))


def listing_of(graph: Graph, made: Lowered) -> Listing:
    """The launches and kernels of a graph that was lowered."""
    return _Lister(graph, made).listing()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _Lister:
    """Numbers memories, kernels and storages by their first appearance."""

    def __init__(self, graph: Graph, made: Lowered) -> None:
        self.graph, self.made = graph, made
        self.memories: dict[object, tuple[int, Buffer]] = {}
        self.kernels: dict[str, int] = {}
        self.rendered: dict[Any, int] = {}
        self.storages: dict[int, int] = {}
        for storage in (*graph.leaves, *(storage for storage, _ in graph.updates)):
            self.storages.setdefault(id(storage), len(self.storages))

    def listing(self) -> Listing:
        lines = [line for number in range(len(self.made.launches)) for line in self._launch(number)]
        results = [
            f"result {number}: b{self._number(buffer)} layout {layout.order}"
            for number, (buffer, layout) in enumerate(zip(self.made.results, self.made.layouts, strict=True))
        ]
        updates = [
            f"update {number}: {self._storage(storage)} layout {storage.layout.order}"
            for number, (storage, _) in enumerate(self.graph.updates)
        ]
        memories = [self._memory(number, buffer) for number, buffer in self.memories.values()]
        arena = f"arena {self.made.arena_bytes} bytes"
        text = "\n".join([*lines, *memories, arena, *results, *updates, ""])
        return Listing(text, tuple(self.kernels), len(self.made.launches))

    def _launch(self, number: int) -> list[str]:
        launch = self.made.launches[number]
        words = " ".join(self._word(word) for word in launch.words)
        pairs = " ".join(f"b{self._number(output)}<-b{self._number(source)}" for output, source in launch.work.in_place)
        waits = "waits" if self.made.waits[number] else "does not wait"
        return [
            f"launch {number}: {launch.label}",
            f"  kernel {self._kernels(launch)} tasks {launch.tasks} scratch {launch.scratch} {waits}",
            f"  words {words}",
            f"  reads {self._numbers(launch.reads)} writes {self._numbers(launch.writes)} in place {pairs or '-'}",
            f"  tunable {_tunable(launch)} parts {' | '.join(part.label for part in launch.work.parts) or '-'}",
        ]

    def _kernels(self, launch: Launch) -> str:
        """A launch's kernel; of a repeat those of its body, with their tasks, and how often they run."""
        if not launch.body:
            return f"k{self._kernel(launch)}"
        body = ", ".join(f"{self._kernels(each)} tasks {each.tasks}" for each in launch.body)
        return f"({body}) {launch.work.spec.count} times"

    def _kernel(self, launch: Launch) -> int:
        if launch.source not in self.rendered:
            text = launch.source.render("kernel")
            self.rendered[launch.source] = self.kernels.setdefault(text, len(self.kernels))
        return self.rendered[launch.source]

    def _word(self, word: int | Address) -> str:
        return f"b{self._number(word.buffer)}+{word.byte_offset}" if isinstance(word, Address) else str(word)

    def _numbers(self, buffers: tuple[Buffer, ...]) -> str:
        return ",".join(f"b{self._number(buffer)}" for buffer in buffers) or "-"

    def _number(self, buffer: Buffer) -> int:
        place = place_of(buffer)
        if place not in self.memories:
            self.memories[place] = len(self.memories), buffer
        return self.memories[place][0]

    def _memory(self, number: int, buffer: Buffer) -> str:
        return f"b{number}: {buffer.size} {buffer.dtype.name} {self._kind(buffer)}: {buffer.label}"

    def _kind(self, buffer: Buffer) -> str:
        if buffer.storage is not None:
            return self._storage(buffer.storage)
        if buffer.kept:
            return "kept"
        if buffer.result is not None:
            return f"result {buffer.result}"
        return f"arena+{self.made.offsets[buffer]}" if buffer in self.made.offsets else "no memory"

    def _storage(self, storage: Storage) -> str:
        """The place of a leaf or a state among those of the graph; memories that lowering makes have none."""
        kind = "state" if storage.is_state else "leaf"
        return f"{kind} {self.storages.get(id(storage), 'of the compiler')}"


def _tunable(launch: Launch) -> str:
    return "-" if launch.tunable is None else type(launch.tunable.spec).__name__
