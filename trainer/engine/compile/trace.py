"""trace: a Python function captured once for each input signature as one program, and replayed without Python per
operation.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from trainer import TrainerError
from trainer.engine import devices, tracing
from trainer.engine.compile.guards import Guards
from trainer.engine.compile.structure import flatten, outline, rebuild
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import user_line
from trainer.engine.graph.node import Node
from trainer.engine.graph.rewrite import structural_key
from trainer.engine.graph.storage import Layout, Storage, aligned_empty
from trainer.engine.tensor import State, Tensor

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

CACHED_SIGNATURES = 16
MANY_SIGNATURES = 8


class Recorder:
    """Gathers what a step reads and assigns while it is traced."""

    def __init__(self) -> None:
        self.current: dict[State, Node] = {}
        self.leaves: dict[State, Node] = {}
        self.assigned: dict[State, Node] = {}

    def on_read(self, operation: str) -> None:
        """There is no value to read while a step is traced."""
        tracing.refuse_read(operation)

    def on_state_read(self, state: State) -> Node:
        """What was assigned last within the step, or the leaf of the state's memory."""
        node = self.current.get(state)
        if node is None:
            node = self.current[state] = self.leaves[state] = p.buffer(state.storage)
        return node

    def on_assign(self, state: State, node: Node) -> None:
        """The state's value from here on."""
        self.on_state_read(state)
        self.current[state] = self.assigned[state] = node

    def updated(self) -> list[State]:
        """The states whose value at the end of the step is not the one at its beginning."""
        return [state for state, node in self.assigned.items() if node is not self.leaves[state]]


@dataclass(slots=True)
class _Entry:
    """One compiled signature: the program, the states it is bound to, and how to give back what was returned."""

    program: Any
    device: devices.Device
    states: list[tuple[State, np.ndarray]]
    updated: list[State]
    guards: Guards
    returned: Any
    positions: list[int | None]
    numbers: list[tuple[str, Any]]
    key: Any


class Traced(Generic[Parameters, Result]):
    """The traced form of `function`; call it as the function. See `trace`."""

    def __init__(
        self,
        function: Callable[Parameters, Result],
        *,
        progress: Callable[[int, int, str], None] | None = None,
        check_every: int = 0,
    ) -> None:
        self.function, self.progress, self.check_every = function, progress, check_every
        self._entries: OrderedDict[Any, _Entry] = OrderedDict()
        self._seen: list[tuple[tuple[str, Any], ...]] = []
        self._calls = 0

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        leaves = list(flatten((args, kwargs)))
        arrays: list[Storage] = []
        signature: list[Any] = []
        numbers: list[tuple[str, Any]] = []
        for where, value in leaves:
            storage = _as_storage(value, where)
            if storage is not None:
                arrays.append(storage)
                signature.append((storage.shape, storage.dtype, storage.layout))
            elif isinstance(value, int | float) and not isinstance(value, bool):
                numbers.append((where, value))
                signature.append(type(value))
            else:
                signature.append(value)
        device = devices.current()
        key = (device.name, id(device), outline((args, kwargs)), tuple(signature))
        entry = self._entries.get(key)
        self._calls += 1
        if entry is None:
            entry = self._trace(args, kwargs, leaves, arrays, device, numbers)
            self._remember(key, entry, leaves)
        else:
            entry.guards.check()
            self._check_numbers(entry, numbers)
            if self.check_every and self._calls % self.check_every == 0:
                self._check(entry, args, kwargs, leaves, arrays)
        for state, memory in entry.states:
            if state.storage.memory is not memory:
                raise AssertionError(f"the memory of state {state.name!r} has moved")
        for state in entry.updated:
            state.prepare_update()
        results = entry.program.run(arrays)
        tensors = [Tensor(p.buffer(storage)) for storage in results]
        filled = iter(
            value if position is None else tensors[position]
            for (_, value), position in zip(flatten(entry.returned), entry.positions, strict=True)
        )
        return rebuild(entry.returned, filled)

    @property
    def programs(self) -> list[Any]:
        """The compiled programs, oldest first."""
        return [entry.program for entry in self._entries.values()]

    # Tracing

    def _record(
        self, args: Any, kwargs: Any, leaves: Sequence[tuple[str, Any]], arrays: Sequence[Storage]
    ) -> tuple[Any, Recorder, list[Node]]:
        """Run the function on placeholders: what it returned, what it did to states, and the placeholders."""
        placeholders: list[Node] = []
        handed: list[Any] = []
        given = iter(arrays)
        for where, value in leaves:
            if isinstance(value, np.ndarray | np.generic | Tensor):
                source = next(given)
                storage = Storage(source.shape, source.dtype, name=f"input{where}")
                storage.layout = source.layout
                placeholders.append(p.buffer(storage))
                handed.append(Tensor(placeholders[-1]))
            else:
                handed.append(value)
        args, kwargs = rebuild((args, kwargs), iter(handed))
        recorder = Recorder()
        with tracing.recording(recorder):
            returned = self.function(*args, **kwargs)
            returned = rebuild(returned, iter([_frozen(value) for _, value in flatten(returned)]))
        return returned, recorder, placeholders

    def _trace(
        self,
        args: Any,
        kwargs: Any,
        leaves: Sequence[tuple[str, Any]],
        arrays: Sequence[Storage],
        device: devices.Device,
        numbers: list[tuple[str, Any]],
    ) -> _Entry:
        guards = Guards(self.function)
        returned, recorder, placeholders = self._record(args, kwargs, leaves, arrays)
        guards.settle()
        results: list[Node] = []
        positions: list[int | None] = []
        for _, value in flatten(returned):
            if isinstance(value, Tensor):
                positions.append(len(results))
                results.append(value.node)
            else:
                positions.append(None)
        updated = recorder.updated()
        key = (
            structural_key([*results, *(recorder.assigned[state] for state in updated)])[0]
            if self.check_every
            else None
        )
        updates = [(state.storage, recorder.assigned[state]) for state in updated]
        program = device.compile(results, updates, placeholders, flush=True, progress=self.progress)
        states = [(state, state.storage.memory) for state in recorder.leaves]
        outline_only = rebuild(returned, iter([None if isinstance(v, Tensor) else v for _, v in flatten(returned)]))
        return _Entry(program, device, states, updated, guards, outline_only, positions, numbers, key)  # type: ignore[arg-type]

    def _remember(self, key: Any, entry: _Entry, leaves: Sequence[tuple[str, Any]]) -> None:
        self._entries[key] = entry
        if len(self._entries) > CACHED_SIGNATURES:
            self._entries.popitem(last=False)
        shapes = tuple((where, getattr(value, "shape", None)) for where, value in leaves)
        self._seen.append(shapes)
        if len(self._seen) == MANY_SIGNATURES:
            first = dict(self._seen[0])
            varying = sorted({where for seen in self._seen for where, shape in seen if first.get(where) != shape})
            names = ", ".join(f"argument {where}" for where in varying) or "its arguments"
            warnings.warn(
                f"a traced step has been compiled for {MANY_SIGNATURES} signatures: {names} keeps changing shape, "
                "and each new shape compiles again; pad to one shape to avoid it",
                RuntimeWarning,
                stacklevel=3,
            )

    def _check_numbers(self, entry: _Entry, numbers: list[tuple[str, Any]]) -> None:
        for (where, before), (_, now) in zip(entry.numbers, numbers, strict=True):
            if before != now:
                raise TrainerError(
                    f"argument {where} of a traced step changed: a Python number is frozen when the step is traced",
                    where=user_line(),
                    found=repr(now),
                    expected=f"{before!r}, as in the call that was traced",
                    hint="Pass an array (np.float32(...)), or keep it in a State and assign to it.",
                )

    def _check(
        self, entry: _Entry, args: Any, kwargs: Any, leaves: Sequence[tuple[str, Any]], arrays: Sequence[Storage]
    ) -> None:
        """Trace again and compare with what runs: a step that reads something that changes shows here."""
        returned, recorder, _ = self._record(args, kwargs, leaves, arrays)
        results = [value.node for _, value in flatten(returned) if isinstance(value, Tensor)]
        key = structural_key([*results, *(recorder.assigned[state] for state in recorder.updated())])[0]
        if key != entry.key:
            raise TrainerError(
                "a traced step is not what it was when it was traced: tracing it again gave another graph",
                where=user_line(),
                hint="It reads a Python value that changes. Make it a State, or pass it as an array.",
            )


def trace(
    function: Callable[Parameters, Result],
    *,
    progress: Callable[[int, int, str], None] | None = None,
    check_every: int = 0,
) -> Traced[Parameters, Result]:
    """Capture `function`, a whole step (forward, backward, update, metrics), as one planned program.

    The first call with each signature (shapes and dtypes of the arrays among the arguments) runs the Python code once
    and compiles; later calls replay the program. Arguments and results are nested dictionaries, lists and tuples;
    NumPy arrays and tensors in them are inputs, strings and flags select a program, a number must not change. States
    that the function assigns to are updated in place.

    Args:
        progress: called with (kernels compiled, kernels in all, what is compiled now).
        check_every: with N > 0, trace again at every Nth call and raise if the graph has changed.

    Raises:
        TrainerError: a value is read inside the step, or a Python value that it depends on has changed since.
    """
    return Traced(function, progress=progress, check_every=check_every)


def _frozen(value: Any) -> Any:
    """What a step returns for a state: its value at the end of the step."""
    return Tensor(value.node) if isinstance(value, Tensor) else value


def _as_storage(value: Any, where: str) -> Storage | None:
    """The memory of an array or tensor among the arguments; None for what is no array."""
    if isinstance(value, Tensor):
        return value._read("trace")
    if not isinstance(value, np.ndarray | np.generic):
        return None
    array = np.asarray(value)
    dtype = dtypes.from_numpy(array.dtype)
    if dtype is None:
        raise TrainerError(
            f"argument {where} of a traced step has no element type of the engine",
            where=user_line(),
            found=f"{array.dtype} of shape {array.shape}",
            expected=", ".join(map(repr, dtypes.ALL)),
        )
    storage = Storage(array.shape, dtype)
    storage.layout = Layout.row_major(array.ndim)
    contiguous = np.ascontiguousarray(array).reshape(-1)
    storage.memory = contiguous if contiguous.size else aligned_empty(0, dtype.storage)
    return storage
