"""The engine's functions under the names that the untuned networks use; `torch_framework.py` is PyTorch's version."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.learner.optimizers import Optimizer
from trainer.learner.optimizers.adam import Adam, AdamW
from trainer.learner.optimizers.sgd import SGD

functional = nn.functional
ReLU, LeakyReLU, weight_norm = nn.ReLU, nn.LeakyReLU, nn.weight_norm
reshape, permute = engine.reshape, engine.permute_dims
cross_entropy, mse_loss, l1_loss = nn.cross_entropy, nn.mse_loss, nn.l1_loss
binary_cross_entropy_with_logits = nn.binary_cross_entropy_with_logits

OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    "sgd": lambda network: SGD(network, 0.001, momentum=0.9, weight_decay=1e-4),
    "adamw": lambda network: AdamW(network, 1e-4),
    "adam": lambda network: Adam(network, 2e-4, betas=(0.5, 0.999)),
}


def concat(arrays: list[Tensor], axis: int) -> Tensor:
    return engine.concat(arrays, axis=axis)


def roll(x: Tensor, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    return engine.roll(x, shifts, axis=axes)


def detach(x: Tensor) -> Tensor:
    return engine.stop_gradient(x)


def constant(values: np.ndarray) -> Tensor:
    """An array that no optimizer updates."""
    return engine.asarray(values)


def parameter(*shape: int) -> Any:
    return nn.Parameter(np.zeros(shape, np.float32))


class Trained:
    """Networks with one optimizer each, and the precision of their products: the first argument of `Network.step`.

    precision: float32, bfloat16 (mixed) or float64 (also of parameters and inputs).
    """

    def __init__(self, networks: list[nn.Module], optimizer: str, precision: str) -> None:
        self.networks = networks
        self.optimizers = [OPTIMIZERS[optimizer](network) for network in networks]
        self.mixed = "bfloat16" if precision == "bfloat16" else "float32"
        self.dtype = engine.float64 if precision == "float64" else engine.float32

    def apply(self, x: Any, number: int = 0) -> Any:
        """Returns the outputs of a network in float32 or float64."""
        with engine.autocast(self.mixed):
            outputs = self.networks[number](x)
        wide = [y.astype(self.dtype) for y in (outputs if isinstance(outputs, tuple) else (outputs,))]
        return tuple(wide) if isinstance(outputs, tuple) else wide[0]

    def frozen(self, number: int) -> contextlib.AbstractContextManager[None]:
        """Skips the gradients of a network's parameters: the engine only computes those that an optimizer requests."""
        return contextlib.nullcontext()

    def minimize(self, loss: Tensor, number: int = 0) -> None:
        """Updates the parameters of one network only."""
        self.optimizers[number].minimize(loss)
