"""Parameters, and the declarations from which a module creates its parameters and buffers on first use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainer.engine.graph.dtypes import DType, float32
from trainer.engine.nn.initializers import Initializer
from trainer.engine.state import State


class Parameter(State):
    """A state that optimizers update: a weight or a bias."""


@dataclass(frozen=True)
class Declaration:
    """Declaration of a parameter (or, with `is_buffer`, a buffer): its values are drawn when it is first read.

    Until then, the module's place in the model and its seed may change, and loading weights skips the drawing.
    """

    shape: tuple[int, ...]
    initializer: Initializer
    dtype: DType = float32
    is_buffer: bool = False


def declare(shape: tuple[int, ...], initializer: Initializer, dtype: DType = float32) -> Any:
    """Declares a parameter: `self.weight = declare((10, 4), kaiming_uniform())`."""
    return Declaration(shape, initializer, dtype)


def declare_buffer(shape: tuple[int, ...], initializer: Initializer, dtype: DType = float32) -> Any:
    """Declares a buffer: a state that is saved with the model and that no optimizer updates."""
    return Declaration(shape, initializer, dtype, is_buffer=True)
