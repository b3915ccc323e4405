"""Activations as modules."""

from __future__ import annotations

from trainer.engine.nn import functional
from trainer.engine.nn.initializers import constant
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare
from trainer.engine.tensor import Tensor


class ReLU(Module):
    """max(x, 0), with x's shape. `inplace` is accepted for compatibility with PyTorch and has no effect."""

    def __init__(self, inplace: bool = False) -> None:
        del inplace

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x)


class LeakyReLU(Module):
    """x where x > 0, `negative_slope`·x elsewhere, with x's shape."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return functional.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"{self.negative_slope}"


class ReLU6(Module):
    """min(max(x, 0), 6), with x's shape."""

    def __init__(self, inplace: bool = False) -> None:
        del inplace

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu6(x)


class PReLU(Module):
    """x where x > 0, weight·x elsewhere, with x's shape; weight [num_parameters] is one slope, or one per channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        self.num_parameters = num_parameters
        self.weight = declare((num_parameters,), constant(init))

    def forward(self, x: Tensor) -> Tensor:
        return functional.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class ELU(Module):
    """x where x > 0, `alpha`·(exp(x) − 1) elsewhere, with x's shape."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return functional.elu(x, self.alpha)


class GELU(Module):
    """x·Φ(x), or its tanh form with `approximate="tanh"`, with x's shape."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(x, self.approximate)


class SiLU(Module):
    """x·sigmoid(x), with x's shape."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.silu(x)


class Mish(Module):
    """x·tanh(softplus(x)), with x's shape. `inplace` is accepted for compatibility with PyTorch and has no effect."""

    def __init__(self, inplace: bool = False) -> None:
        del inplace

    def forward(self, x: Tensor) -> Tensor:
        return functional.mish(x)


class Hardswish(Module):
    """x·relu6(x + 3) / 6, with x's shape. `inplace` is accepted for compatibility with PyTorch and has no effect."""

    def __init__(self, inplace: bool = False) -> None:
        del inplace

    def forward(self, x: Tensor) -> Tensor:
        return functional.hardswish(x)


class Hardsigmoid(Module):
    """relu6(x + 3) / 6, with x's shape. `inplace` is accepted for compatibility with PyTorch and has no effect."""

    def __init__(self, inplace: bool = False) -> None:
        del inplace

    def forward(self, x: Tensor) -> Tensor:
        return functional.hardsigmoid(x)


class Tanh(Module):
    """tanh(x), with x's shape."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(−x)), with x's shape."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.sigmoid(x)


class Softplus(Module):
    """log(1 + exp(x)), with x's shape."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.softplus(x)


class Softmax(Module):
    """exp(x) / sum(exp(x)) along `axis`."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return functional.softmax(x, self.axis)


class LogSoftmax(Module):
    """log(softmax(x)) along `axis`."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return functional.log_softmax(x, self.axis)
