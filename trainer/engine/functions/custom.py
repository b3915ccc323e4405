"""Custom operations: functions with a custom gradient, and kernels in LLVM IR."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from trainer.engine import targets
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.primitives.custom import KERNEL, CustomKernel, NodeGradient
from trainer.engine.tensor import Tensor, as_tensor, wrapped

Gradient = Callable[..., Any]
"""(cotangent, result, *inputs) -> the cotangent of each input (None for zero), or only that of a single input."""


def custom(
    function: Callable[..., Tensor] | None = None,
    /,
    *,
    gradient: Gradient | None = None,
    llvm: str | Callable[..., str | Sequence[str]] | None = None,
    result: Callable[..., tuple[Shape, DType]] | None = None,
    tasks: int | Callable[..., int] = 1,
    reference: Callable[..., Any] | None = None,
    name: str = "",
) -> Any:
    """A user-defined operation on tensors; also a decorator.

    A `function` composed of the engine's functions fuses with its neighbors. `gradient` replaces its derivative.

    `llvm` gives a kernel in LLVM IR: a module that defines `void @kernel(ptr %x1, ..., ptr %y, i64 %task)`. The
    operands are dense and row-major; task 0 to `tasks` - 1 run in any order, on any thread, and write each element of
    the result once. The text is part of the key of compiled kernels and tuning decisions. The operation is traced and
    tuned like other operations; `engine.save_program` refuses it.

    Args:
        function: takes tensors and returns one tensor; give either `function` or `llvm`.
        gradient: takes the tensors (cotangent, result, *inputs) and returns the cotangent of each input, or None for
            zero. If it is composed of the engine's functions, it can be differentiated again.
        llvm: the text, or a function of the inputs (tensors, for their shapes and dtypes) that returns it, or several
            texts that compute the same bits. `engine.tuning` picks the fastest; the first is the default.
        result: a function of the inputs that returns (shape, dtype) of the result; None: those of the first input.
        tasks: number of tasks, or a function of the inputs that returns it.
        reference: the same operation on NumPy arrays, for the reference device.
        name: shown in errors and lists of launches; default: the function's name.

    Raises:
        TrainerError: both `function` and `llvm` are given, or `result`, `tasks` or `reference` without `llvm`; when
            called, LLVM refuses the text, or the gradient's results do not fit the inputs.
    """
    if llvm is None and (result is not None or tasks != 1 or reference is not None):
        raise refusal("custom", "`result`, `tasks` and `reference` describe a kernel", expected="`llvm`")
    if function is None and llvm is None:
        return functools.partial(custom, gradient=gradient, name=name)
    if function is not None and llvm is not None:
        raise refusal("custom", "takes a function or LLVM IR", found="both", expected="one of them")
    name = name or getattr(function or llvm, "__name__", "custom").replace("<lambda>", "custom")
    rule = None if gradient is None else _rule(name, gradient)
    if function is not None:
        return functools.wraps(function)(functools.partial(_composed, function, rule, name))
    kernel = _Kernel(name, llvm, result, tasks, rule, reference)
    return kernel


def _composed(function: Callable[..., Tensor], rule: NodeGradient | None, name: str, *inputs: Any) -> Tensor:
    tensors = [as_tensor(value, operation=name) for value in inputs]
    found = function(*tensors)
    if rule is None:
        return found
    if not isinstance(found, Tensor):
        raise refusal(name, "a custom function with a gradient returns one tensor", found=type(found).__name__)
    return wrapped(p.with_gradient(found.node, [tensor.node for tensor in tensors], rule), found, *tensors)


class _Kernel:
    """An operation that a kernel in LLVM IR computes."""

    def __init__(
        self, name: str, llvm: Any, result: Callable[..., tuple[Shape, DType]] | None,
        tasks: int | Callable[..., int], rule: NodeGradient | None, reference: Callable[..., Any] | None,
    ) -> None:  # fmt: skip
        self.__name__, self.llvm, self.result, self.tasks = name, llvm, result, tasks
        self.rule, self.reference = rule, reference

    def __call__(self, *inputs: Any) -> Tensor:
        name = self.__name__
        tensors = [as_tensor(value, operation=name) for value in inputs]
        texts = self.llvm(*tensors) if callable(self.llvm) else self.llvm
        sources = (texts,) if isinstance(texts, str) else tuple(texts)
        tasks = self.tasks(*tensors) if callable(self.tasks) else self.tasks
        if not tensors:
            raise refusal(name, "a kernel needs at least one tensor", found="no inputs")
        first = tensors[0].shape, tensors[0].dtype
        shape, dtype = first if self.result is None else self.result(*tensors)
        if not sources or not isinstance(tasks, int) or tasks < 1:
            raise refusal(name, "a kernel needs a text and at least one task", found=f"{len(sources)} texts, {tasks=}")
        for source in sources:
            problem = targets.current().problem_of(source, KERNEL, len(tensors) + 1)
            if problem:
                raise refusal(name, "LLVM refuses the kernel's text", found=problem,
                              expected="a module that defines `void @kernel(ptr, ..., ptr, i64)`")  # fmt: skip
        kernel = CustomKernel(name, sources, tuple(shape), dtype, tasks, self.rule, self.reference)
        return wrapped(p.custom(kernel, [tensor.node for tensor in tensors]), *tensors)


def _rule(name: str, gradient: Gradient) -> NodeGradient:
    """Wraps the user's gradient, a function of tensors, as a function of nodes."""

    def rule(cotangent: Node, result: Node, inputs: Sequence[Node]) -> list[Node | None]:
        given = [Tensor(node) for node in (cotangent, result, *inputs)]
        found = gradient(*given)
        parts = list(found) if isinstance(found, tuple | list) else [found]
        if len(parts) != len(inputs):
            raise refusal(name, "the gradient has another number of results", found=len(parts), expected=len(inputs))
        for number, (part, source) in enumerate(zip(parts, inputs, strict=True)):
            if part is not None and (part.shape != source.shape or part.dtype is not source.dtype):
                raise refusal(name, f"the gradient of input {number} doesn't fit it", found=describe([part]),
                              expected=describe([source]))  # fmt: skip
        return [None if part is None else part.node for part in parts]

    return rule
