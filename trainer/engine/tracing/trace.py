"""trace: a Python function captured once for each input signature as one program, then replayed."""

from __future__ import annotations

import enum
import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from trainer import TrainerError
from trainer.engine import targets, tracing
from trainer.engine.autocast import current as current_precision
from trainer.engine.collection import collection_held
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import int32
from trainer.engine.graph.errors import user_line
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.sharding import Shards, check_divides, tracing_shard
from trainer.engine.state import State, prepare_run
from trainer.engine.tensor import Tensor, as_tensor, watcher
from trainer.engine.tracing.arguments import as_storage, check_objects, flag, name_of
from trainer.engine.tracing.constants import ARRAYS, PLAIN, is_same_value
from trainer.engine.tracing.guards import Guards
from trainer.engine.tracing.pytree import flatten, outline, rebuild
from trainer.engine.tracing.recorder import Graph, Recorder, detached, frozen, outputs_of
from trainer.engine.tracing.sharded import ShardedProgram

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

CACHED_SIGNATURES = 16
MANY_SIGNATURES = 8
MANY_RETRACES = 8


@dataclass(slots=True)
class _Entry:
    """One compiled signature: the program, the states it is bound to, and how to rebuild the returned value.

    `leaves`: for each leaf of `returned`, the index of the program's result, or None and the value itself.
    `compiled_at`: the number of the call. `retraces`: the number of earlier entries of the same signature.
    """

    program: Any
    device: targets.Device
    states: frozenset[State]
    updated: frozenset[State]
    guards: Guards
    returned: Any
    leaves: list[tuple[int | None, Any]]
    numbers: list[tuple[str, Any]]
    graph: Graph | None
    compiled_at: int
    retraces: int = 0

    def run(self, arrays: Sequence[Storage], shards: Shards | None) -> tuple[list[Any], targets.Fence]:
        """Returns the step's return value for each local shard, and the end of the run."""
        if shards is None:
            results = self.program.run(arrays)
            return [self._filled(results)], results.fence
        rows, whole = ([array for array in arrays if bool(array.shape) is has_rows] for has_rows in (True, False))
        found = self.program.run(rows, whole)
        return [self._filled(results) for results in found], self.program.fence

    def _filled(self, results: Sequence[Storage]) -> Any:
        for storage in results:
            storage.owner.fetch(storage.block)
        tensors = [Tensor(p.buffer(storage)) for storage in results]
        filled = [value if position is None else tensors[position] for position, value in self.leaves]
        return rebuild(self.returned, iter(filled))


class Traced(Generic[Parameters, Result]):
    """The traced form of `function`; call it like the function. See `trace`."""

    def __init__(
        self,
        function: Callable[Parameters, Result],
        *,
        progress: Callable[[int, int, str], None] | None = None,
        check_every: int = 0,
        shards: Shards | None = None,
    ) -> None:
        self.function, self.progress, self.check_every = function, progress, check_every
        self.shards = None if shards is None or shards.count == 1 else shards
        self._entries: OrderedDict[Any, _Entry] = OrderedDict()
        self._shapes: dict[tuple[tuple[str, Any], ...], None] = {}
        self._ignored: set[str] = set()
        self._calls = 0
        self.fence: targets.Fence = targets.DONE
        """The end of the last run."""
        functools.update_wrapper(self, function)

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if tracing.active() is not None:
            return self.function(*args, **kwargs)  # a part of the step that is being traced
        leaves = list(flatten((args, kwargs)))
        if watcher.get() is not None:
            untraced: Any = self._untraced(args, kwargs, leaves)
            if self.shards is not None:
                untraced = [untraced]
            return untraced
        arrays: list[Storage] = []
        signature: list[Any] = []
        numbers: list[tuple[str, Any]] = []
        for where, value in leaves:
            storage = as_storage(self.function, where, value)
            if storage is not None:
                if self.shards is not None and storage.shape:
                    check_divides(self.shards.size, storage.shape[0])
                arrays.append(storage)
                signature.append((storage.shape, storage.dtype, storage.layout))
            elif isinstance(value, int | float | complex) and not isinstance(value, bool | enum.Enum):
                numbers.append((where, value))
                signature.append(type(value))
            else:
                signature.append(flag(self.function, where, value))
        device = targets.current()
        key = (device.name, id(device), current_precision(), outline((args, kwargs)), tuple(signature))
        entry = self._entries.get(key)
        self._calls += 1
        if entry is None:
            with collection_held():  # a graph of thousands of nodes lives until it is compiled: an eighth of the time
                entry = self._trace(args, kwargs, leaves, arrays, device, numbers)
            self._remember(key, entry, leaves)
        elif (replaced := entry.guards.check()) is not None:
            with collection_held():
                new = self._trace(args, kwargs, leaves, arrays, device, numbers)
            new.retraces = entry.retraces + 1
            entry = self._entries[key] = new
            self._entries.move_to_end(key)
            if entry.retraces == MANY_RETRACES:
                warnings.warn(
                    f"a traced step has been traced again {MANY_RETRACES} times for one signature, each of which "
                    f"compiles: {replaced} is another object than in the call before; keep one object and change its "
                    "states",
                    RuntimeWarning,
                    stacklevel=2,
                )
        else:
            self._entries.move_to_end(key)
            self._check_numbers(entry, numbers)
            if self.check_every and self._calls % self.check_every == 0:
                self._check(entry, args, kwargs, leaves, arrays)
        with targets.lock:
            prepare_run(entry.states, entry.updated)
            found, self.fence = entry.run(arrays, self.shards)
        returned: Any = found[0] if self.shards is None else found
        return returned

    def _untraced(self, args: Any, kwargs: Any, leaves: Sequence[tuple[str, Any]]) -> Any:
        """The function's result, computed operation by operation (`engine.eager`)."""
        handed = [as_tensor(value) if isinstance(value, np.ndarray | np.generic) else value for _, value in leaves]
        args, kwargs = rebuild((args, kwargs), iter(handed))
        returned = self.function(*args, **kwargs)
        return rebuild(returned, iter([frozen(value) for _, value in flatten(returned)]))

    @property
    def programs(self) -> list[Any]:
        """The compiled programs, oldest first."""
        return [entry.program for entry in sorted(self._entries.values(), key=lambda entry: entry.compiled_at)]

    # Tracing

    def _record(
        self, args: Any, kwargs: Any, leaves: Sequence[tuple[str, Any]], arrays: Sequence[Storage]
    ) -> tuple[Any, Recorder, list[Node]]:
        """Runs the function on placeholders; returns its result, the recorder, and the placeholders."""
        recorder = Recorder()
        placeholders: list[Node] = []
        handed: list[Any] = []
        given = iter(arrays)
        for where, value in leaves:
            if isinstance(value, np.ndarray | np.generic | Tensor):
                source = next(given)
                shape = source.shape
                if self.shards is not None and shape:
                    shape = (shape[0] // self.shards.size, *shape[1:])
                storage = Storage(shape, source.dtype, name=f"input {name_of(self.function, where)}")
                storage.layout = source.layout
                placeholders.append(p.buffer(storage))
                handed.append(Tensor(placeholders[-1]))
            else:
                handed.append(value)
        args, kwargs = rebuild((args, kwargs), iter(handed))
        with ExitStack() as stack:
            stack.enter_context(tracing.recording(recorder))
            if self.shards is not None:
                number, read = p.buffer(Storage((), int32, name="the shard's number")), recorder.leaves.values()
                stack.enter_context(tracing_shard(self.shards.count, number, tuple(placeholders), read))
                placeholders.append(number)
            returned = self.function(*args, **kwargs)
            returned = rebuild(returned, iter([frozen(value) for _, value in flatten(returned)]))
        return returned, recorder, placeholders

    def _trace(
        self, args: Any, kwargs: Any, leaves: Sequence[tuple[str, Any]], arrays: Sequence[Storage],
        device: targets.Device, numbers: list[tuple[str, Any]],
    ) -> _Entry:  # fmt: skip
        check_objects(self.function, (args, kwargs))
        guards = Guards(self.function, self._objects(leaves), self._ignored)
        returned, recorder, placeholders = self._record(args, kwargs, leaves, arrays)
        guards.settle(frozenset(recorder.hosts))
        graph = Graph.of(outputs_of(returned, recorder), placeholders) if self.check_every else None
        results: list[Node] = []
        given_back: list[tuple[int | None, Any]] = []
        for _, value in flatten(returned):
            if isinstance(value, Tensor):
                given_back.append((len(results), None))
                results.append(value.node)
            else:
                given_back.append((None, value))
        results += recorder.effects
        updated = recorder.updated()
        news = [recorder.assigned[state] for state in updated]
        outputs = detached([*results, *news], {*placeholders, *recorder.leaves.values()})
        updates = [(state.storage, node) for state, node in zip(updated, outputs[len(results) :], strict=True)]
        program: Any
        if self.shards is None:
            program = device.compile(outputs[: len(results)], updates, placeholders, flush=True, progress=self.progress)
        else:
            *own, number = placeholders
            rows, whole = [node for node in own if node.shape], [node for node in own if not node.shape]
            program = ShardedProgram(
                device, self.shards, outputs[: len(results)], updates, rows, whole, number, self.progress
            )
        states = frozenset(recorder.leaves)
        recorder.close()
        outline_only = rebuild(returned, iter([None if isinstance(v, Tensor) else v for _, v in flatten(returned)]))
        return _Entry(
            program, device, states, frozenset(updated), guards, outline_only, given_back, numbers, graph, self._calls
        )

    def _remember(self, key: Any, entry: _Entry, leaves: Sequence[tuple[str, Any]]) -> None:
        self._entries[key] = entry
        if len(self._entries) > CACHED_SIGNATURES:
            self._entries.popitem(last=False)
        shapes = tuple((where, getattr(value, "shape", None)) for where, value in leaves)
        if len(self._shapes) == MANY_SIGNATURES or shapes in self._shapes:
            return
        self._shapes[shapes] = None
        if len(self._shapes) == MANY_SIGNATURES:
            first = dict(next(iter(self._shapes)))
            varying = {where: None for shapes in self._shapes for where, shape in shapes if first.get(where) != shape}
            names = " and ".join(name_of(self.function, where) for where in varying) or "what is in its arguments"
            warnings.warn(
                f"a traced step has been compiled for {MANY_SIGNATURES} shapes: a new shape of {names} "
                "compiles again; pad to one shape to avoid it",
                RuntimeWarning,
                stacklevel=3,
            )

    def _objects(self, leaves: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """The arguments that have attributes, by name."""
        kinds = (*PLAIN, *ARRAYS)
        return [(name_of(self.function, where), value) for where, value in leaves if not isinstance(value, kinds)]

    def _check_numbers(self, entry: _Entry, numbers: list[tuple[str, Any]]) -> None:
        for (where, before), (_, now) in zip(entry.numbers, numbers, strict=True):
            if not is_same_value(before, now):
                raise TrainerError(
                    f"argument {name_of(self.function, where)} of a traced step changed: a Python number is frozen "
                    "when the step is traced",
                    where=user_line(),
                    found=repr(now),
                    expected=f"{before!r}, as in the call that was traced",
                    hint="Pass an array (np.float32(...)), or keep it in a State and assign to it.",
                )

    def _check(
        self, entry: _Entry, args: Any, kwargs: Any, leaves: Sequence[tuple[str, Any]], arrays: Sequence[Storage]
    ) -> None:
        """Traces again and compares with the running program, which finds a step that reads a changing value."""
        returned, recorder, placeholders = self._record(args, kwargs, leaves, arrays)
        graph = Graph.of(outputs_of(returned, recorder), placeholders)
        recorder.close()
        if entry.graph is None or not entry.graph.is_same(graph):
            raise TrainerError(
                "a traced step has changed since it was traced: tracing it again gave another graph",
                where=user_line(),
                hint="It reads a value that changes. Make it a State, or pass it as an array.",
            )


def trace(
    function: Callable[Parameters, Result],
    *,
    progress: Callable[[int, int, str], None] | None = None,
    check_every: int = 0,
    shards: Shards | None = None,
) -> Traced[Parameters, Any]:
    """Captures `function`, a whole step (forward, backward, update, metrics), as one planned program.

    The first call with each signature runs the Python code once and compiles; later calls replay the program. A
    signature is the nesting of the arguments (the classes of containers included), shapes and dtypes of the arrays and
    tensors among them, strings and flags by value, and other objects by identity. A Python number must not change. An
    object that holds arrays is refused: pass them in a dictionary, tuple or namedtuple. States that the function
    assigns to are updated in place.

    Guards check the values that the Python code reads: globals, closure cells, attributes, slots, properties, methods,
    defaults, items of lists, tuples, dictionaries and sets, attributes of modules, parameters and layers, including
    those of the arguments. When one of these objects is replaced, the next call traces the step again; after 8 times, a
    RuntimeWarning names it.

    Guards do not check:

    - arrays that are changed in place, and values from C code, `eval`, `globals()`, `os.environ`, files or clocks;
    - attributes whose names are computed, such as `getattr(self, f"layer{i}")`, outside of an `nn.Module`;
    - items of deques and other containers, and of containers with more than 4,096 items;
    - attributes that the step itself assigns, and containers that it changes itself;
    - objects of the standard library, NumPy and installed packages' modules, and code of this package; fields of frozen
      dataclasses; contents of lists and dictionaries that optimizers and other objects of this package hold.

    `check_every` also finds changes of these.

    Args:
        progress: called with (kernels compiled, total kernels, name of the current one), and while kernels are planned
            with (0, 0, progress of the planning). An exception that it raises ends the call.
        check_every: with N > 0, trace again at every Nth call and raise if the graph has changed.
        shards: trace the step for one of several shards. Arrays with axes hold rows of the local shards along
            their first axis. The traced function returns a list: what the step returns for each local shard.
            `shard_sum` combines values of all shards; random numbers differ between them; states can get only values
            that are the same in all shards. Gradients of values that mix rows in other ways are refused.

    Raises:
        TrainerError: a value is read inside the step; a number, string, flag or array that it depends on has changed
            since; an argument is not hashable.
    """
    return Traced(function, progress=progress, check_every=check_every, shards=shards)
