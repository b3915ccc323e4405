"""Captures a function's graph for inputs like the given ones, with the arrays that it reads, for a program file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.export.attributes import to_json
from trainer.engine.export.batch import SIZES, at_every_batch
from trainer.engine.export.graph import ANY_BATCH, ARRAY, FIXED, FORMAT, INPUT
from trainer.engine.graph import dtypes, lines
from trainer.engine.graph import primitives as p
from trainer.engine.graph.common import merged
from trainer.engine.graph.errors import user_line
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.primitives.host import HOST_CALLS
from trainer.engine.graph.storage import Storage
from trainer.engine.safetensors import Arrays
from trainer.engine.tensor import Tensor
from trainer.engine.tracing.arguments import as_storage, name_of
from trainer.engine.tracing.pytree import flatten, rebuild
from trainer.engine.tracing.recorder import depth_first, detached
from trainer.engine.tracing.trace import Traced

_KEY = re.compile(r"\[(?:'([^']*)'|(\d+))\]")


@dataclass(frozen=True)
class Program:
    """A captured program.

    Attributes:
        document: the content of a file; arrays: the arrays that it reads, by name. lines: the user's line of each node;
        places: node numbers in an order that depends only on the structure.
    """

    document: dict[str, Any]
    arrays: dict[str, Storage]
    lines: tuple[str | None, ...]
    places: tuple[int, ...]

    def renamed(self, names: Mapping[str, str]) -> Program:
        """Returns the program with its arrays under other names."""
        nodes = [
            node | {"name": names[node["name"]]} if node["operation"] == ARRAY else node
            for node in self.document["nodes"]
        ]
        updates = [update | {"array": names[update["array"]]} for update in self.document["updates"]]
        arrays = {names[name]: storage for name, storage in self.arrays.items()}
        return Program({**self.document, "nodes": nodes, "updates": updates}, arrays, self.lines, self.places)


def capture_program(
    function: Callable[..., Any],
    *args: Any,
    any_batch: bool = False,
    with_updates: bool = False,
    **kwargs: Any,
) -> Program:
    """Captures the program of `function(*args, **kwargs)`; the arguments are those of `save_program`.

    Raises:
        TrainerError: as `save_program` does.
    """
    if not any_batch:
        return _capture(function, args, kwargs, with_updates=with_updates)
    captured: list[Program] = []
    lines.noting += 1  # shown to the user if an operation does not depend linearly on the batch size
    try:
        for size in SIZES:
            given, named = _with_batch(size, args, kwargs)
            like = captured[0] if captured else None  # otherwise equal constants are ordered by creation
            captured.append(_capture(function, given, named, with_updates=False, like=like))
    finally:
        lines.noting -= 1
    first = captured[0]
    _check_arrays(captured)
    nodes = at_every_batch([(program.document["nodes"], program.lines) for program in captured])
    return Program({**first.document, "version": ANY_BATCH, "nodes": nodes}, first.arrays, first.lines, first.places)


def share_arrays(programs: Mapping[str, Program]) -> tuple[dict[str, Program], Arrays]:
    """Returns the programs and all their arrays: equal ones of the same name once, others under distinct names."""
    pool: dict[str, Storage] = {}
    shared = {}
    for key, program in programs.items():
        names: dict[str, str] = {}
        for name, storage in program.arrays.items():
            candidates = (name if count == 1 else f"{name} ({count})" for count in range(1, 1 << 30))
            taken = set(names.values())
            names[name] = next(
                each for each in candidates
                if each not in taken and (each not in pool or _is_equal(pool[each], storage))
            )  # fmt: skip
            pool.setdefault(names[name], storage)
        shared[key] = program.renamed(names)
    return shared, {name: (np.array(storage.view()), storage.dtype) for name, storage in pool.items()}


def _is_equal(first: Storage, second: Storage) -> bool:
    if first is second:
        return True
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return False
    values, others = (np.ascontiguousarray(each.view()).reshape(-1).view(np.uint8) for each in (first, second))
    return bool(np.array_equal(values, others))


def _check_arrays(captured: Sequence[Program]) -> None:
    """Rejects constants that differ between batch sizes."""
    first, *others = captured
    for other in others:
        for (name, storage), (known, expected) in zip(other.arrays.items(), first.arrays.items(), strict=False):
            if name != known or not _is_equal(storage, expected):
                number = next(
                    (at for at, node in enumerate(first.document["nodes"]) if node.get("name") == known), None
                )
                raise TrainerError(
                    f"save_program: the array {known!r} differs between batch sizes, and a program for any batch "
                    "has one array for all of them",
                    where=(None if number is None else first.lines[number]) or user_line(),
                    found=f"{expected.dtype}{list(expected.shape)} for a batch of {SIZES[0]}, {storage.dtype}"
                    f"{list(storage.shape)} for another",
                    hint="Make arrays of the batch's size with the engine's own functions, such as engine.zeros.",
                )  # fmt: skip


def _with_batch(size: int, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Replaces arrays in the arguments by placeholders of `size` items, whose values nothing reads."""
    leaves = []
    for _, value in flatten((args, kwargs)):
        if isinstance(value, np.ndarray | np.generic | Tensor):
            dtype = value.dtype if isinstance(value, Tensor) else dtypes.from_numpy(value.dtype)
            if not value.shape:
                raise TrainerError(
                    "save_program: every input of a program for any batch size has the batch as its first axis",
                    where=user_line(), found=f"a number, {dtype}[]",
                )  # fmt: skip
            if dtype is not None:  # others are rejected with the arguments of traced functions
                value = Tensor(p.buffer(Storage((size, *value.shape[1:]), dtype, name="example")))
        leaves.append(value)
    rebuilt: tuple[Any, Any] = rebuild((args, kwargs), iter(leaves))
    return rebuilt


def _capture(
    function: Callable[..., Any], args: Any, kwargs: Any, *, with_updates: bool, like: Program | None = None
) -> Program:
    """Captures the function's graph, with nodes in the order of `like` if their structures match."""
    from trainer.engine.nn.module import Module

    if isinstance(function, Module):
        function = function.forward
    elif isinstance(function, Traced):
        function = function.function
    leaves = list(flatten((args, kwargs)))
    storages = [as_storage(function, where, value) for where, value in leaves]
    returned, recorder, placeholders = Traced(function)._record(
        args, kwargs, leaves, [storage for storage in storages if storage is not None]
    )
    names = [_dotted(name_of(function, where)) for (where, _), storage in zip(leaves, storages, strict=True) if storage]
    outputs = _outputs(returned)
    updated = recorder.updated()
    if updated and not with_updates:
        some = ", ".join(state.name or "a state without a name" for state in updated[:3])
        raise TrainerError(
            "save_program: the function assigns to states, which a program for inference can't contain",
            where=user_line(), found=f"{some}{', …' if len(updated) > 3 else ''}",
            hint="Call `.eval()` on the module first, or keep the updates: with_updates=True.",
        )  # fmt: skip
    results = [*outputs.values(), *(recorder.assigned[state] for state in updated)]
    results = merged(detached(results, {*placeholders, *recorder.leaves.values()}))
    outputs, news = dict(zip(outputs, results, strict=False)), results[len(outputs) :]
    ends = [*results, *(recorder.leaves[state] for state in updated)]
    by_structure = depth_first(ends)
    order = _in_order(ends) if like is None else _in_order_of(like, by_structure, placeholders)
    for node in order:
        if node.name == "scan":
            raise TrainerError(
                "save_program: engine.scan runs a graph within the graph, which a program's file does not hold",
                where=node.line or user_line(),
                expected="operations of docs/program.md",
                hint="Save the function with a Python loop over the steps in place of the scan.",
            )
    calls = [*recorder.effects, *(node for node in order if node.name in HOST_CALLS)]
    if calls:
        raise TrainerError(
            "save_program: a host call runs Python code, which a program file can't contain",
            where=next((node.line for node in calls if node.line), user_line()),
        )
    for node in order:
        if node.name == "custom":
            raise TrainerError(
                f"save_program: {node.attributes[0].name} is a custom kernel in LLVM IR: a program file can't hold it",
                where=node.line or user_line(),
                expected="operations that every target supports",
                hint="Save the function with an equivalent composed of the engine's functions.",
            )
    inputs = dict(zip(placeholders, _unique(names), strict=True))
    own = [node for node in order if node.operation.family == "leaf" and node not in inputs]
    array_names = dict(zip(own, _unique([node.attributes[0].name or "constant" for node in own]), strict=True))
    number = {node: index for index, node in enumerate(dict.fromkeys((*inputs, *order)))}  # unused inputs, too
    document = {
        "format": FORMAT,
        "version": FIXED,
        "nodes": [_entry(node, number, inputs, array_names) for node in number],
        "outputs": [{"name": name, "node": number[node]} for name, node in outputs.items()],
        "updates": [
            {"array": array_names[recorder.leaves[state]], "node": number[node]}
            for state, node in zip(updated, news, strict=True)
        ],
    }
    recorder.close()
    arrays = {name: node.attributes[0] for node, name in array_names.items()}
    places = tuple(number[node] for node in by_structure)
    return Program(document, arrays, tuple(node.line for node in number), places)


def _in_order_of(like: Program, by_structure: Sequence[Node], placeholders: Sequence[Node]) -> list[Node]:
    """Orders nodes as in `like`, matched by place in the structure; keeps their order if the counts differ."""
    if len(by_structure) != len(like.places):
        return list(by_structure)
    number = {node: place for node, place in zip(by_structure, like.places, strict=True)}
    number |= {node: place for place, node in enumerate(placeholders)}
    return sorted(by_structure, key=lambda node: number[node])


def _in_order(outputs: Sequence[Node]) -> list[Node]:
    """Returns every node in the order in which the function made it. Leaves, and nodes that depend on none, come just
    before their first use, since they may be older than the function's call. So the same function gives the same file.
    """
    order = topological(outputs)
    varies: set[Node] = set()
    for node in order:
        if node.operation.family == "leaf" or any(source in varies for source in node.inputs):
            varies.add(node)
    placed: dict[Node, None] = {}

    def place(node: Node) -> None:
        stack = [node]
        while stack:
            waiting = [source for source in stack[-1].inputs if source not in placed]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                placed.setdefault(stack.pop())

    for node in (*(node for node in order if node in varies and node.operation.family != "leaf"), *outputs):
        place(node)
    return list(placed)


def _outputs(returned: Any) -> dict[str, Node]:
    """Returns the results by name: keys and positions joined by dots; "output" for a single tensor."""
    outputs: dict[str, Node] = {}
    for where, value in flatten(returned):
        if not isinstance(value, Tensor):
            raise TrainerError(
                "save_program: a program's results must be tensors", where=user_line(),
                found=f"{type(value).__name__} at {_dotted(where) or 'the only result'}",
            )  # fmt: skip
        outputs[_dotted(where) or "output"] = value.node
    return outputs


def _dotted(where: str) -> str:
    """Converts `batch['image'][0]` to `batch.image.0`."""
    return _KEY.sub(lambda found: f".{found[1] if found[1] is not None else found[2]}", where).lstrip(".")


def _unique(names: Sequence[str]) -> list[str]:
    taken: dict[str, int] = {}
    result = []
    for name in names:
        taken[name] = taken.get(name, 0) + 1
        result.append(name if taken[name] == 1 else f"{name} ({taken[name]})")
    return result


def _entry(
    node: Node, number: Mapping[Node, int], inputs: Mapping[Node, str], arrays: Mapping[Node, str]
) -> dict[str, Any]:
    """Returns a node as stored in the file."""
    if node in inputs:
        own: dict[str, Any] = {"operation": INPUT, "name": inputs[node]}
    elif node in arrays:
        own = {"operation": ARRAY, "name": arrays[node]}
    else:
        values = zip(node.operation.attributes, node.attributes, strict=True)
        own = {"inputs": [number[source] for source in node.inputs]}
        own["attributes"] = {name: to_json(value) for name, value in values}
    return {"operation": node.name, "dtype": node.dtype.name, "shape": list(node.shape)} | own
