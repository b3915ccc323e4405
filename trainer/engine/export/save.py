"""`engine.save_program`: a function's graph for inputs like the given ones, with the arrays that it reads."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.export.attributes import to_json
from trainer.engine.export.graph import ARRAY, FORMAT, INPUT, PROGRAM, VERSION
from trainer.engine.graph.common import merged
from trainer.engine.graph.errors import user_line
from trainer.engine.graph.node import Node, topological
from trainer.engine.safetensors import encoded
from trainer.engine.tensor import Tensor
from trainer.engine.tracing.arguments import as_storage, name_of
from trainer.engine.tracing.recorder import detached
from trainer.engine.tracing.structure import flatten
from trainer.engine.tracing.trace import Traced

_KEY = re.compile(r"\[(?:'([^']*)'|(\d+))\]")


def save_program(
    path: str | Path, function: Callable[..., Any], *args: Any, with_updates: bool = False, **kwargs: Any
) -> None:
    """Write what `function(*args, **kwargs)` computes to `path`, for inputs of these shapes and dtypes.

    Args:
        path: the file; replaced in one go.
        function: a traced step, a plain function of tensors, or a module.
        args: arrays and tensors among them (nested, too) become the program's inputs, named as in `function`; numbers,
            texts and flags are decided now.
        with_updates: also keep what the function assigns to states, so that the loaded program goes on with it.
            Otherwise states are constants, and a function that assigns to some is refused.

    Raises:
        TrainerError: it assigns to states, returns what is no tensor, or the file can't be written.
    """
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
            "save_program: the function assigns to states, which a program for inference does not",
            where=user_line(), found=f"{some}{', …' if len(updated) > 3 else ''}",
            hint="Call `.eval()` on the module first, or keep the updates: with_updates=True.",
        )  # fmt: skip
    results = [*outputs.values(), *(recorder.assigned[state] for state in updated)]
    results = merged(detached(results, {*placeholders, *recorder.leaves.values()}))
    outputs, news = dict(zip(outputs, results, strict=False)), results[len(outputs) :]
    order = _in_order([*results, *(recorder.leaves[state] for state in updated)])
    if recorder.effects or any(node.is_bundle for node in order):
        raise TrainerError(
            "save_program: a host call runs Python code, which a program's file does not hold", where=user_line()
        )
    inputs = dict(zip(placeholders, _unique(names), strict=True))
    own = [node for node in order if node.operation.family == "leaf" and node not in inputs]
    array_names = dict(zip(own, _unique([node.attributes[0].name or "constant" for node in own]), strict=True))
    arrays = {name: (np.array(node.attributes[0].view()), node.dtype) for node, name in array_names.items()}
    number = {node: index for index, node in enumerate(dict.fromkeys((*inputs, *order)))}  # inputs that are unused, too
    document = {
        "format": FORMAT,
        "version": VERSION,
        "nodes": [_entry(node, number, inputs, array_names) for node in number],
        "outputs": [{"name": name, "node": number[node]} for name, node in outputs.items()],
        "updates": [
            {"array": array_names[recorder.leaves[state]], "node": number[node]}
            for state, node in zip(updated, news, strict=True)
        ],
    }
    recorder.close()
    _write(Path(path), encoded(arrays, {PROGRAM: json.dumps(document, separators=(",", ":"))}))


def _in_order(outputs: Sequence[Node]) -> list[Node]:
    """Every node in the order in which the function made it; older ones just before their first use."""
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
    """What is returned, by name: keys and positions joined by dots; "output" for a lone tensor."""
    outputs: dict[str, Node] = {}
    for where, value in flatten(returned):
        if not isinstance(value, Tensor):
            raise TrainerError(
                "save_program: a program's results are tensors", where=user_line(),
                found=f"{type(value).__name__} at {_dotted(where) or 'the only result'}",
            )  # fmt: skip
        outputs[_dotted(where) or "output"] = value.node
    return outputs


def _dotted(where: str) -> str:
    """`batch['image'][0]` as `batch.image.0`."""
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
    """A node as the file has it."""
    if node in inputs:
        own: dict[str, Any] = {"operation": INPUT, "name": inputs[node]}
    elif node in arrays:
        own = {"operation": ARRAY, "name": arrays[node]}
    else:
        values = zip(node.operation.attributes, node.attributes, strict=True)
        own = {"inputs": [number[source] for source in node.inputs]}
        own["attributes"] = {name: to_json(value) for name, value in values}
    return {"operation": node.name, "dtype": node.dtype.name, "shape": list(node.shape)} | own


def _write(path: Path, content: bytes) -> None:
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise TrainerError("can't write the program", where=str(path), found=error.strerror or str(error)) from error
