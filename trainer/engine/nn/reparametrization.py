"""Spectral and weight normalization: a layer's weight is computed from other parameters, with torch's names.

Miyato et al. 2018; Salimans & Kingma 2016. `torch.nn.utils.spectral_norm` and `weight_norm` are the source of names,
shapes and defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import Declaration, Parameter, declare, declare_buffer
from trainer.engine.tensor import Tensor

Layer = TypeVar("Layer", bound=Module)


def spectral_norm(
    module: Layer, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Layer:
    """Divides a layer's weight, as a matrix with rows along `dim`, by its largest singular value.

    The parameter `name` becomes `name_orig`; the buffers `name_u` and `name_v` hold the singular vectors. In training,
    each use of the layer updates them by `n_power_iterations` power iterations, without gradients.

    Args:
        module: a layer with the parameter `name` of at least two axes; it is changed and returned.
        eps: minimum norm by which a vector is divided.
        dim: the axis of the rows; by default 1 for a transposed convolution, otherwise 0.

    Raises:
        TrainerError: no such parameter with two axes or more, or fewer than one iteration.
    """
    shape = _taken(module, name, "_orig").shape
    if n_power_iterations < 1 or len(shape) < 2:
        raise TrainerError("spectral_norm needs a weight of at least two axes and at least one power iteration",
                           found=f"{name} {list(shape)}, n_power_iterations={n_power_iterations}")  # fmt: skip
    axis = (1 if getattr(module, "is_transposed", False) else 0) if dim is None else dim % len(shape)
    columns = int(np.prod(shape)) // shape[axis]
    setattr(module, f"{name}_u", declare_buffer((shape[axis],), _unit))
    setattr(module, f"{name}_v", declare_buffer((columns,), _unit))
    module._computed[name] = _SpectralNorm(name, n_power_iterations, eps, axis)
    return module


def weight_norm(module: Layer, name: str = "weight", dim: int | None = 0) -> Layer:
    """Splits a layer's weight into directions and lengths: `name` = `name_g` · `name_v` / |`name_v`|.

    The norm is taken over all axes except `dim`; if `dim` is None, over all axes, and `name_g` is a scalar. `name_g`
    starts as the norm of `name_v`, so the layer's function stays the same.

    Args:
        module: a layer with the parameter `name`; it is changed and returned.

    Raises:
        TrainerError: the parameter does not exist.
    """
    shape = _taken(module, name, "_v").shape
    axis = None if dim is None else dim % len(shape)
    lengths = tuple(extent if place == axis else 1 for place, extent in enumerate(shape)) if axis is not None else ()
    setattr(module, f"{name}_g", declare(lengths, _Lengths(module, f"{name}_v", axis)))
    module._computed[name] = _WeightNorm(name, axis)
    return module


def _taken(module: Module, name: str, ending: str) -> Parameter | Declaration:
    """Moves the parameter `name` of a layer to `name` + `ending` and returns it."""
    state = module._states.get(name)
    if not isinstance(state, Parameter) and not (isinstance(state, Declaration) and not state.is_buffer):
        raise TrainerError(f"{type(module).__name__} has no parameter {name!r}",
                           found=", ".join(module._states) or "no parameters")  # fmt: skip
    delattr(module, name)
    setattr(module, f"{name}{ending}", state)
    return state


def _unit(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    values = generator.normal(size=shape)
    return np.asarray(values / np.linalg.norm(values))


@dataclass(frozen=True)
class _Lengths:
    """Initializes the lengths with the norms of the layer's directions."""

    module: Module
    directions: str
    axis: int | None

    def __call__(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        values = getattr(self.module, self.directions).numpy().astype(np.float64)
        axes = tuple(place for place in range(values.ndim) if place != self.axis)
        return np.sqrt(np.square(values).sum(axes)).reshape(shape)


@dataclass(frozen=True)
class _SpectralNorm:
    name: str
    iterations: int
    eps: float
    axis: int

    def __call__(self, module: Module) -> Tensor:
        weight: Tensor = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = functions.reshape(functions.moveaxis(weight, self.axis, 0), (weight.shape[self.axis], -1))
        left, right = functions.stop_gradient(u), functions.stop_gradient(v)
        if module.training:
            constant = functions.stop_gradient(matrix)
            for _ in range(self.iterations):
                right = self._normalized(functions.sum(functions.expand_dims(left, axis=1) * constant, axis=0))
                left = self._normalized(functions.sum(constant * right, axis=1))
            u.assign(left)
            v.assign(right)
        return weight / functions.sum(left * functions.sum(matrix * right, axis=1))

    def _normalized(self, x: Tensor) -> Tensor:
        return x / functions.maximum(functions.sqrt(functions.sum(x * x)), self.eps)


@dataclass(frozen=True)
class _WeightNorm:
    name: str
    axis: int | None

    def __call__(self, module: Module) -> Tensor:
        lengths, directions = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        axes = tuple(place for place in range(directions.ndim) if place != self.axis)
        norm = functions.sqrt(functions.sum(directions * directions, axis=axes, keepdims=self.axis is not None))
        return directions * (lengths / norm)
