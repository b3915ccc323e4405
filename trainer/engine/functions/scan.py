"""`scan`: the user's step over time, in one program that is compiled once for any number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from trainer.engine import tracing
from trainer.engine.functions.creation import arange
from trainer.engine.functions.movement import concat, stack
from trainer.engine.graph import primitives as p
from trainer.engine.graph import sequence
from trainer.engine.graph.dtypes import int32
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, uncomputed
from trainer.engine.graph.primitives.scan import placeholder
from trainer.engine.graph.scan_gradient import of_scan
from trainer.engine.tensor import Tensor, as_tensor, watcher, wrapped
from trainer.engine.tracing.pytree import flatten, outline, rebuild

Tensors = list[Tensor]
Stepped = Callable[[Tensors, Tensors], tuple[Tensors, Tensors]]
"""(carried values, slices of the inputs) -> (carried values after the step, outputs)"""

_steps: ContextVar[tuple[Tensor, ...]] = ContextVar("scan_steps", default=())


def scan(
    step: Callable[[Any, Any], tuple[Any, Any]], carry: Any, inputs: Any = None, *, reverse: bool = False,
    length: int | None = None, checkpoint_every: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Runs `step(carry, x) -> (carry, y)` for each slice x of `inputs` along their first axis, like `jax.lax.scan`.

    The step is recorded once and compiled once, for any number of steps, and values that do not change (a cast of a
    weight) are computed once. It may read tensors and states (weights) of the enclosing scope. The results are
    bit-identical to those of a Python loop. A scan is differentiable: the gradient is a scan in the other direction
    over the carried values and the results of products and reductions, which the forward scan keeps.

    Layers draw new random numbers at each step, the same ones with and without `checkpoint_every`; functions of
    `engine.random` use the key and counter that they receive.

    Args:
        step: takes the carry and a slice, returns the next carry, of the same structure, shapes and dtypes, and the
            outputs of the step: tensors nested in dictionaries, lists and tuples, or None.
        carry: values before the first step; tensors, arrays and numbers, nested likewise.
        inputs: arrays of [length, ...], nested likewise; None with `length`.
        reverse: begin with the last slice; outputs stay at the places of their slices.
        length: the number of steps; by default that of the inputs.
        checkpoint_every: keep only the carry of every `checkpoint_every`-th step, and recompute the blocks between for
            the gradient: memory for length / checkpoint_every + checkpoint_every steps rather than for all.

    Returns:
        The last carry, and the outputs of all steps stacked along a new first axis.

    Raises:
        TrainerError: inputs have different lengths or there are no steps; the step changes the structure, a shape or a
            dtype of the carry, reads a value, assigns to a state, or calls Python on arrays.
    """
    names, carried = _tensors(carry, "carry")
    places, slices = _tensors(inputs, "inputs")
    count = _length(places, slices, length)
    if checkpoint_every is not None and (not isinstance(checkpoint_every, int) or checkpoint_every < 1):
        raise refusal("scan", "no number of steps to checkpoint", found=repr(checkpoint_every), expected="1 or more")
    shape: list[Any] = []

    def stepped(before: Tensors, given: Tensors) -> tuple[Tensors, Tensors]:
        with _at(given[0]):
            returned = step(_filled(carry, before), _filled(inputs, given[1:]))
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise refusal("scan", "the step returns no pair", found=type(returned).__name__, expected="(carry, output)")
        after, output = returned
        shape[:] = [output]
        return _checked(after, carry, names, before), _tensors(output, "output")[1]

    arguments = [arange(count, dtype=int32), *slices]
    if watcher.get() is not None:
        ended, outputs = _unrolled(stepped, carried, arguments, count, reverse)
    elif checkpoint_every is None or checkpoint_every >= count:
        ended, outputs = _recorded(stepped, carried, arguments, count, reverse)
    else:
        ended, outputs = _in_blocks(stepped, carried, arguments, count, checkpoint_every, reverse)
    return _filled(carry, ended), _filled(shape[0], outputs)


def steps() -> tuple[Tensor, ...]:
    """The step numbers of all scans that are being recorded, the outermost first; int32 of shape ()."""
    return _steps.get()


@contextmanager
def _at(number: Tensor) -> Iterator[None]:
    token = _steps.set((*_steps.get(), number))
    try:
        yield
    finally:
        _steps.reset(token)


class _StepRecorder:
    """Handles events while a step is recorded: states are read from the enclosing trace and can't be assigned."""

    effect: Node | None = None

    def __init__(self, outer: tracing.ActiveTrace | None) -> None:
        self._outer, self.began = outer, sequence.now()

    def on_read(self, operation: str) -> None:
        raise refusal(
            operation,
            "value read inside a step of a scan",
            expected="graph code: the step is recorded once, before any value exists",
            hint="Return the tensor as an output, choose with engine.where, or debug within `with engine.eager():`.",
        )

    def on_state_read(self, state: Any) -> Node:
        with tracing.recording(self._outer):
            return state.node

    def on_assign(self, state: Any, node: Node) -> None:
        raise refusal(
            "scan",
            "the step assigns to a state",
            found=state.name or "a state without a name",
            hint="Carry its value from step to step, and assign it after the scan. A norm: call `.eval()` on it.",
        )

    def on_host_call(self, function: Callable[..., Any], token: Node | None) -> None:
        name = getattr(function, "__qualname__", type(function).__name__)
        raise refusal("scan", "the step calls Python on arrays", found=name, hint="Call it before or after the scan.")


def _recorded(
    function: Stepped, carried: Tensors, inputs: Tensors, length: int, reverse: bool, keep: bool = True
) -> tuple[Tensors, Tensors]:
    """Records the scan as a node of the graph; without `keep` the derivative recomputes each step."""
    before = [placeholder(each.shape, each.dtype, "carry") for each in carried]
    slices = [placeholder(each.shape[1:], each.dtype, "slice") for each in inputs]
    with tracing.recording(_StepRecorder(tracing.active())):
        after, outputs = function([Tensor(node) for node in before], [Tensor(node) for node in slices])
        results = [each.node for each in (*after, *outputs)]
    starts = dict(zip(before, [each.node for each in carried], strict=True))
    given = dict(zip(slices, [each.node for each in inputs], strict=True))
    bundle = p.scan(results, starts, given, length, gradient=of_scan, reverse=reverse, keep=keep)
    made = [wrapped(p.output(bundle, place)) for place in range(len(results))]
    oldest = min(node.sequence for node in uncomputed([bundle]) if node.value is None)
    for each in made:
        each._since = oldest  # the history includes what the step reads from the enclosing scope
    return made[: len(carried)], made[len(carried) :]


def _in_blocks(
    function: Stepped, carried: Tensors, inputs: Tensors, length: int, every: int, reverse: bool
) -> tuple[Tensors, Tensors]:
    """A scan over scans of `every` steps; the derivative keeps only the carry of each. Remaining steps come last."""
    blocks, rest = divmod(length, every)

    def block(before: Tensors, given: Tensors) -> tuple[Tensors, Tensors]:
        return _recorded(function, before, given, every, reverse)

    first, last = (slice(rest, None), slice(rest)) if reverse else (slice(length - rest), slice(length - rest, None))
    folded = [each[first].reshape((blocks, every, *each.shape[1:])) for each in inputs]
    ended, outputs = _recorded(block, carried, folded, blocks, reverse, keep=False)
    outputs = [each.reshape((blocks * every, *each.shape[2:])) for each in outputs]
    if not rest:
        return ended, outputs
    ended, others = _recorded(function, ended, [each[last] for each in inputs], rest, reverse)
    pairs = [pair[::-1] if reverse else pair for pair in zip(outputs, others, strict=True)]
    return ended, [concat(pair) for pair in pairs]


def _unrolled(
    function: Stepped, carried: Tensors, inputs: Tensors, length: int, reverse: bool
) -> tuple[Tensors, Tensors]:
    """Runs step after step, operation by operation (`engine.eager`)."""
    found: list[Tensors] = []
    for place in reversed(range(length)) if reverse else range(length):
        carried, outputs = function(carried, [each[place] for each in inputs])
        found.append(outputs)
    return carried, [stack(each) for each in zip(*(found[::-1] if reverse else found), strict=True)]


def _tensors(tree: Any, name: str) -> tuple[list[str], Tensors]:
    """Returns the names of the leaves of nested values other than None, and the leaves as tensors."""
    leaves = [(where, value) for where, value in flatten(tree, name) if value is not None]
    return [where for where, _ in leaves], [as_tensor(value, operation="scan") for _, value in leaves]


def _filled(tree: Any, tensors: Sequence[Tensor]) -> Any:
    """Returns `tree` with its leaves other than None replaced by `tensors`."""
    given = iter(tensors)
    return rebuild(tree, iter([None if value is None else next(given) for _, value in flatten(tree)]))


def _length(names: Sequence[str], inputs: Tensors, length: int | None) -> int:
    known = {} if length is None else {"length": length}
    for name, each in zip(names, inputs, strict=True):
        if not each.ndim:
            raise refusal("scan", f"{name} has no first axis", found=describe([each]), expected="[length, ...]")
        known[name] = each.shape[0]
    if not known:
        raise refusal("scan", "there is nothing to say how many steps there are", expected="inputs, or `length`")
    if len(set(known.values())) > 1:
        found = ", ".join(f"{name} of {count}" for name, count in known.items())
        raise refusal("scan", "inputs of different lengths", found=found, expected="one length")
    count = next(iter(known.values()))
    if count < 1:
        raise refusal("scan", "there are no steps", found=f"length {count}", expected="at least 1")
    return count


def _checked(after: Any, carry: Any, names: Sequence[str], before: Tensors) -> Tensors:
    """Returns the leaves of the carry that the step returned; checks that they match those of the previous carry."""
    found, tensors = _tensors(after, "carry")
    if outline(after) != outline(carry) or found != list(names):
        expected = ", ".join(names) or "nothing"
        raise refusal("scan", "the step changes the structure of the carry", found=", ".join(found) or "nothing",
                      expected=expected)  # fmt: skip
    for name, old, new in zip(names, before, tensors, strict=True):
        if old.shape != new.shape or old.dtype is not new.dtype:
            raise refusal(
                "scan", f"the step changes the shape or dtype of {name}", found=describe([new]),
                expected=describe([old]), hint="Begin with a value of the shape and dtype that the step returns.",
            )  # fmt: skip
    return tensors
