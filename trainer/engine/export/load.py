"""`engine.load_program`: the programs of a file as callables, on any device, with the same bits as the original."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.export.batch import extent_text
from trainer.engine.export.graph import INPUT, PROGRAM, ProgramDocument, too_large
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import user_line
from trainer.engine.graph.node import Node
from trainer.engine.graph.rewrite import replaced
from trainer.engine.safetensors import decoded, parsed
from trainer.engine.state import State
from trainer.engine.tensor import Tensor, as_tensor
from trainer.engine.tracing.trace import trace

Extents = tuple[int | str, ...]


class LoadedProgram:
    """A program from a file. Call it with its inputs, in order or by name; it returns its outputs by name.

    inputs, outputs: (dtype, shape) by name; an extent that depends on the batch size is a string such as `batch` or
    `100*batch`. arrays: its arrays as states; each call changes those in `updated`.
    """

    def __init__(self, document: ProgramDocument, states: Mapping[str, State]) -> None:
        self._document = document
        self._has_any_batch = document.has_any_batch
        self._first = graph = document.graph(1 if document.has_any_batch else None)  # this checks the document
        self.arrays = {name: states[name] for name in graph.arrays}
        self.inputs = {name: (node.dtype, self._extents(INPUT, name, node)) for name, node in graph.inputs.items()}
        self.outputs = {name: (node.dtype, self._extents("", name, node)) for name, node in graph.outputs.items()}
        self.updated = tuple(graph.updates)
        self._step = trace(self._replay)

    @property
    def has_any_batch(self) -> bool:
        """Whether the program accepts any batch size along the first axis of its inputs."""
        return self._has_any_batch

    def _extents(self, kind: str, name: str, node: Node) -> Extents:
        """The shape of an input or output, with `batch` for the batch size."""
        if not self._has_any_batch:
            return node.shape
        content = self._document.content
        if kind == INPUT:
            return "batch", *node.shape[1:]
        number = next(output["node"] for output in content["outputs"] if output["name"] == name)
        return tuple(map(extent_text, content["nodes"][number]["shape"]))

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """Runs the program.

        Raises:
            TrainerError: an input is missing, unknown, or of another shape or dtype than the program expects.
        """
        names = list(self.inputs)
        if len(args) > len(names):
            raise _refused("too many inputs", len(args), f"{len(names)}: {', '.join(names)}")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(given) < len(args) + len(kwargs) or given.keys() != self.inputs.keys():
            found = [*names[: len(args)], *kwargs]
            raise _refused("the inputs", ", ".join(found) or "none", f"{', '.join(names) or 'none'}, each once")
        tensors = {name: as_tensor(given[name], operation="load_program") for name in names}
        batch = next((tensor.shape[0] for tensor in tensors.values() if tensor.shape), 0)
        for name, tensor in tensors.items():
            self._check_input(name, tensor, batch)
        return self._step(tensors)

    def _check_input(self, name: str, tensor: Tensor, batch: int) -> None:
        dtype, shape = self.inputs[name]
        if self._has_any_batch and batch > 0:
            shape = (batch, *shape[1:])
        if (tensor.dtype, tensor.shape) != (dtype, shape):
            found, expected = f"{tensor.dtype}{list(tensor.shape)}", _listed(dtype, shape)
            raise _refused(f"input {name!r} has another shape or dtype", found, expected)

    def _replay(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Replays the graph while traced: once for each batch size, and again if the cache has dropped it."""
        batch = next(iter(inputs.values())).shape[0] if self._has_any_batch and inputs else 1
        graph = self._first if batch == 1 else self._document.graph(batch)
        instead = {leaf: inputs[name].node for name, leaf in graph.inputs.items()}
        instead |= {leaf: self.arrays[name].node for name, leaf in graph.arrays.items()}
        news = iter(replaced([*graph.updates.values(), *graph.outputs.values()], instead))
        for name in graph.updates:
            self.arrays[name].assign(Tensor(next(news)))
        return {name: Tensor(next(news)) for name in graph.outputs}

    def __repr__(self) -> str:
        def listed(kinds: dict[str, tuple[DType, Extents]]) -> str:
            return ", ".join(f"{name}: {_listed(*kind)}" for name, kind in kinds.items())

        return f"LoadedProgram({listed(self.inputs)} -> {listed(self.outputs)})"


def _listed(dtype: DType, shape: Extents) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


@dataclass(frozen=True)
class ProgramFile:
    """The content of a file: programs by name ("" for a single one), the arrays that they share, other metadata."""

    programs: dict[str, LoadedProgram]
    arrays: dict[str, State]
    metadata: dict[str, str]


def load_program(path: str | Path, *, memory: int | None = None) -> LoadedProgram:
    """Loads the program that `save_program` wrote to `path`.

    The file is checked completely before it is used, and contains no code: a malicious one can at most waste time and
    the allowed memory.

    Args:
        path: the file.
        memory: maximum bytes of its arrays and the values live at once; None allows the machine's memory.

    Raises:
        TrainerError: the file can't be read, does not follow docs/program.md, or needs more memory than allowed.
    """
    found = load_programs(path, memory=memory)
    if found.programs.keys() != {""}:
        raise TrainerError(
            "a file of several programs", where=str(path), found=", ".join(map(ascii, found.programs)),
            expected="a file that save_program wrote",
        )  # fmt: skip
    return found.programs[""]


def load_programs(path: str | Path, *, memory: int | None = None) -> ProgramFile:
    """Loads all programs of a file, with the checks of `load_program`.

    Raises:
        TrainerError: as `load_program` does.
    """
    where, allowed = str(path), _physical_memory() if memory is None else memory
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > allowed:
                raise too_large(where, size, allowed)
            content = file.read()
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        raise TrainerError("can't read the program", where=where, found=found) from error
    arrays, metadata = decoded(content, where)
    texts = {key: metadata.pop(key) for key in list(metadata) if key == PROGRAM or key.startswith(f"{PROGRAM} ")}
    if not texts:
        raise TrainerError(
            "a safetensors file without a program", where=where, expected="a file that save_program wrote"
        )
    kinds = {name: (values.shape, dtype) for name, (values, dtype) in arrays.items()}
    states = {name: _state(name, *arrays[name]) for name in arrays}
    programs = {}
    for key, text in texts.items():
        at = f"{where}, {ascii(key)[1:-1]:.80}"
        document = ProgramDocument(parsed(text, at), kinds, at, allowed)
        programs[key.removeprefix(PROGRAM).removeprefix(" ")] = LoadedProgram(document, states)
    unread = states.keys() - {name for program in programs.values() for name in program.arrays}
    if unread:
        raise TrainerError(
            "not a program that can be run: arrays that no node reads", where=where, found=f"{sorted(unread)!r:.200}"
        )
    return ProgramFile(programs, states, metadata)


def _state(name: str, values: np.ndarray, dtype: DType) -> State:
    state = State(np.zeros(values.shape, np.bool_), name, dtype)
    state.storage.write(values)  # as bits: a conversion would lose NaN payloads of bfloat16
    return state


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 << 30


def _refused(problem: str, found: object, expected: object) -> TrainerError:
    return TrainerError(f"program: {problem}", where=user_line(), found=found, expected=expected)
