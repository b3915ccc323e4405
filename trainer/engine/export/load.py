"""`engine.load_program`: a program file as something to call, on any device, with the bits of the original."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.export.graph import PROGRAM, ProgramGraph, graph_of
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import user_line
from trainer.engine.graph.rewrite import replaced
from trainer.engine.safetensors import decoded, parsed
from trainer.engine.state import State
from trainer.engine.tensor import Tensor, as_tensor
from trainer.engine.tracing.trace import trace


class LoadedProgram:
    """A program from a file. Call it with its inputs, in order or by name; it returns its outputs by name.

    inputs, outputs: (dtype, shape) by name. arrays: what it computes with, as states; those in `updated` are changed by
    each call.
    """

    def __init__(self, graph: ProgramGraph, arrays: dict[str, State]) -> None:
        self._graph = graph
        self.arrays = arrays
        self.inputs = {name: (node.dtype, node.shape) for name, node in graph.inputs.items()}
        self.outputs = {name: (node.dtype, node.shape) for name, node in graph.outputs.items()}
        self.updated = tuple(graph.updates)
        self._step = trace(self._replay)

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """Run the program.

        Raises:
            TrainerError: an input is missing, unknown, or of another shape or dtype than the program was made for.
        """
        names = list(self.inputs)
        if len(args) > len(names):
            raise _refused("too many inputs", len(args), f"{len(names)}: {', '.join(names)}")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(given) < len(args) + len(kwargs) or given.keys() != self.inputs.keys():
            found = [*names[: len(args)], *kwargs]
            raise _refused("the inputs", ", ".join(found) or "none", f"{', '.join(names) or 'none'}, each once")
        return self._step({name: self._fitting(name, given[name]) for name in names})

    def _fitting(self, name: str, value: Any) -> Tensor:
        tensor = as_tensor(value, operation="load_program")
        if (tensor.dtype, tensor.shape) != self.inputs[name]:
            dtype, shape = self.inputs[name]
            found, expected = f"{tensor.dtype}{list(tensor.shape)}", f"{dtype}{list(shape)}"
            raise _refused(f"input {name!r} is of another kind", found, expected)
        return tensor

    def _replay(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        graph = self._graph
        instead = {leaf: inputs[name].node for name, leaf in graph.inputs.items()}
        instead |= {leaf: self.arrays[name].node for name, leaf in graph.arrays.items()}
        news = iter(replaced([*graph.updates.values(), *graph.outputs.values()], instead))
        for name in graph.updates:
            self.arrays[name].assign(Tensor(next(news)))
        return {name: Tensor(next(news)) for name in graph.outputs}

    def __repr__(self) -> str:
        def listed(kinds: dict[str, tuple[DType, tuple[int, ...]]]) -> str:
            return ", ".join(f"{name}: {dtype}{list(shape)}" for name, (dtype, shape) in kinds.items())

        return f"LoadedProgram({listed(self.inputs)} -> {listed(self.outputs)})"


def load_program(path: str | Path, *, memory: int | None = None) -> LoadedProgram:
    """The program that `save_program` wrote to `path`.

    The file is checked wholly before anything is made of it, and holds no code: a hostile one can waste time and as
    much memory as is allowed, and nothing else.

    Args:
        path: the file.
        memory: bytes that its arrays and all values needed at once may take; None allows what the machine has.

    Raises:
        TrainerError: the file can't be read, is not as docs/program.md says, or would need more memory.
    """
    where, allowed = str(path), _physical_memory() if memory is None else memory
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > allowed:
                raise _too_large(where, size, allowed)
            content = file.read()
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        raise TrainerError("can't read the program", where=where, found=found) from error
    arrays, metadata = decoded(content, where)
    if PROGRAM not in metadata:
        raise TrainerError("a safetensors file without a program", where=where, expected="one that save_program wrote")
    graph = graph_of(parsed(metadata[PROGRAM], f"{where}, program"), arrays, where)
    peak = graph.peak_bytes()
    if peak > allowed:
        raise _too_large(where, peak, allowed)
    return LoadedProgram(graph, {name: _state(name, *arrays[name]) for name in graph.arrays})


def _state(name: str, values: np.ndarray, dtype: DType) -> State:
    state = State(np.zeros(values.shape, np.bool_), name, dtype)
    state.storage.write(values)  # as bits: bfloat16 has payloads of NaN that a conversion would lose
    return state


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 << 30


def _too_large(where: str, found: int, allowed: int) -> TrainerError:
    return TrainerError(
        "the program needs more memory than it is allowed", where=where, found=f"{found / 1e9:.3g} GB",
        expected=f"at most {allowed / 1e9:.3g} GB", hint="If you know it, allow more: load_program(path, memory=…).",
    )  # fmt: skip


def _refused(problem: str, found: object, expected: object) -> TrainerError:
    return TrainerError(f"program: {problem}", where=user_line(), found=found, expected=expected)
