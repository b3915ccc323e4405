"""Host calls: Python functions on NumPy arrays, also inside traced steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainer.engine import history, targets, tracing
from trainer.engine.graph import half
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import check_dtype, refusal, user_line
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.host import HostFunction
from trainer.engine.graph.storage import Storage
from trainer.engine.tensor import Tensor, as_tensor, evaluate, wrapped


def host_call(
    function: Callable[..., Any],
    /,
    *tensors: Any,
    results: Sequence[tuple[Sequence[int], DType]] = (),
    effect: bool = False,
) -> Any:
    """Calls a Python `function` on the values of `tensors`; returns a tensor, a tuple of tensors, or None without
    `results`.

    In a traced step the function runs at every call of the step, on the calling thread, with subnormal numbers as in
    Python. Elsewhere it runs immediately. No gradients flow through it.

    Args:
        function: takes a copy of each tensor as a NumPy array (bfloat16 as float32), and returns an array, or a tuple
            of arrays, of exactly the shapes and dtypes of `results`. It must not compute with tensors, nor wait
            for a thread that does. Without `results` its return value is ignored. Other values that it reads may change
            from call to call: a traced step does not guard them.
        tensors: tensors, arrays, numbers.
        results: shape and dtype of each result.
        effect: the function has side effects: a traced step runs it once for each call, in the order of the calls, even
            if the results are unused. Otherwise a step may skip a call whose results are unused, merge equal calls, and
            reuse results that depend only on unchanged states.

    Raises:
        TrainerError: the function raised an exception (the error's `__cause__`), or returned other shapes or dtypes. A
            traced step ends there. It stores new values of states after all host calls, so states are unchanged, unless
            one kernel computes a state's value together with an argument of a later call.
    """
    operands = [as_tensor(value, operation="host_call") for value in tensors]
    kinds = tuple([(tuple([int(extent) for extent in shape]), dtype) for shape, dtype in results])
    for _, dtype in kinds:
        check_dtype("host_call", dtype)
    if not callable(function):
        raise refusal("host_call", "takes a function", found=type(function).__name__, expected="a callable")
    if not kinds and not effect:
        raise refusal(
            "host_call", "neither results nor an effect", found="no results", expected="results, or an effect"
        )
    call = HostFunction(function, tuple([operand.dtype for operand in operands]), kinds, effect, user_line())
    recorder = tracing.active()
    if recorder is None:
        found = run_now(call, operands)
    else:
        targets.check_host_function(call.name)
        sources = [operand.node for operand in operands]
        token = recorder.effect if effect else None
        outputs = _outputs(call, sources if token is None else [*sources, token])
        recorder.on_host_call(function, outputs[-1] if effect else None)
        found = [wrapped(node, *operands) for node in outputs[: len(kinds)]]
    return tuple(found) if len(found) > 1 else found[0] if found else None


def _outputs(call: HostFunction, inputs: Sequence[Node]) -> list[Node]:
    bundle = p.host_call(call, inputs)
    return [p.output(bundle, index) for index in range(len(call.outputs))]


def run_now(call: HostFunction, operands: Sequence[Tensor]) -> list[Tensor]:
    """Runs the call now; the results keep their history, so that derivatives are refused instead of zero."""
    evaluate(*operands)
    values = call.call([operand.numpy() for operand in operands])
    outputs = _outputs(call, [operand.node for operand in operands])[: len(call.results)]
    for node, value in zip(outputs, values, strict=False):
        node.value = Storage.of(half.stored(value, node.dtype), node.dtype)
    with targets.lock:
        history.release(outputs)
    return [Tensor(node) for node in outputs]
