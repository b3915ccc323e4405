"""A pytest plugin that makes `trainer.engine` the array namespace under test in the test suites of SciPy, scikit-learn
and einops, instead of the namespaces that they support. `foreign_suites.py` loads it.

These suites expect float64 by default (SciPy's suite sets this default for PyTorch), so here functions that create
arrays from Python numbers return float64.
"""

from __future__ import annotations

import importlib.util
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from trainer import engine

NAME = "trainer.engine"
_CREATION = ("arange", "empty", "eye", "full", "linspace", "ones", "zeros")
_WIDE = {engine.float32: engine.float64, engine.complex64: engine.complex128}


def _asarray(value: Any, /, *, dtype: Any = None, **further: Any) -> engine.Tensor:
    is_array = hasattr(value, "dtype") or hasattr(value, "__dlpack__")
    return engine.asarray(value if is_array or dtype is not None else np.asarray(value), dtype=dtype, **further)


def _creating(name: str) -> Callable[..., engine.Tensor]:
    function: Callable[..., engine.Tensor] = getattr(engine, name)

    def create(*arguments: Any, dtype: Any = None, **further: Any) -> engine.Tensor:
        if dtype is None and not any(isinstance(argument, engine.Tensor | np.generic) for argument in arguments):
            dtype = _WIDE.get(function(*arguments, **further).dtype)
        return function(*arguments, dtype=dtype, **further)

    return create


class _Information:
    """`__array_namespace_info__` with the default dtypes of these suites."""

    def __init__(self) -> None:
        self._information = engine.__array_namespace_info__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._information, name)

    def default_dtypes(self, *, device: Any = None) -> dict[str, engine.DType]:
        found = self._information.default_dtypes(device=device)
        return {kind: _WIDE.get(dtype, dtype) for kind, dtype in found.items()}


class _Namespace(types.ModuleType):
    """`trainer.engine` with the default dtypes float64 and complex128."""

    asarray = staticmethod(_asarray)
    __array_namespace_info__ = _Information

    def __getattr__(self, name: str) -> Any:
        return getattr(engine, name)


NAMESPACE = _Namespace(NAME)
for _name in _CREATION:
    setattr(NAMESPACE, _name, _creating(_name))
engine.Tensor.__array_namespace__ = lambda self, *, api_version=None: NAMESPACE  # type: ignore[method-assign]


# --- SciPy: its fixture `xp` gives the namespace ----------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_plugin_registered(plugin: object) -> None:
    """Gives the fixture `xp` of SciPy's conftest.py the engine as its only parameter."""
    if getattr(plugin, "__name__", "").endswith("conftest") and hasattr(plugin, "xp_known_backends"):
        plugin.xp_known_backends.add(NAME)
        only = pytest.param(NAMESPACE, id=NAME, marks=pytest.mark.array_api_backends)
        plugin.xp = pytest.fixture(params=[only])(inspect.unwrap(plugin.xp))  # type: ignore[attr-defined]


# --- scikit-learn: test modules query the names of namespaces when they are imported ----------------------------------


def _combinations(include_numpy_namespaces: bool = True) -> Iterator[tuple[str, None, str]]:
    for dtype in ("float64", "float32"):
        yield NAME, None, dtype


if importlib.util.find_spec("sklearn"):
    from sklearn.utils import _array_api

    _array_api.yield_namespace_device_dtype_combinations = _combinations
    _array_api.yield_namespaces = lambda include_numpy_namespaces=True: iter([NAME])


# --- einops: a backend for its own functions, and tensors for those of `einops.array_api` -----------------------------


if importlib.util.find_spec("einops"):
    from einops import _backends, array_api

    class _Backend(_backends.AbstractBackend):  # type: ignore[misc]
        framework_name = NAME

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, engine.Tensor)

        def from_numpy(self, x: np.ndarray) -> engine.Tensor:
            return engine.asarray(x)

        def to_numpy(self, x: engine.Tensor) -> np.ndarray:
            return x.numpy()

        def arange(self, start: int, stop: int) -> engine.Tensor:
            return engine.arange(start, stop)

        def transpose(self, x: engine.Tensor, axes: tuple[int, ...]) -> engine.Tensor:
            return engine.permute_dims(x, axes)

        def reshape(self, x: engine.Tensor, shape: tuple[int, ...]) -> engine.Tensor:
            return engine.reshape(x, tuple(shape))

        def reduce(self, x: engine.Tensor, operation: str, axes: tuple[int, ...]) -> engine.Tensor:
            return getattr(engine, operation)(x, axis=tuple(axes))

        def stack_on_zeroth_dimension(self, tensors: list[engine.Tensor]) -> engine.Tensor:
            return engine.stack(tensors)

        def tile(self, x: engine.Tensor, repeats: tuple[int, ...]) -> engine.Tensor:
            return engine.tile(x, repeats)

        def concat(self, tensors: list[engine.Tensor], axis: int) -> engine.Tensor:
            return engine.concat(tensors, axis=axis)

        def add_axis(self, x: engine.Tensor, new_position: int) -> engine.Tensor:
            return engine.expand_dims(x, axis=new_position)

        def is_float_type(self, x: engine.Tensor) -> bool:
            return x.dtype.is_float

        def einsum(self, pattern: str, *x: engine.Tensor) -> engine.Tensor:
            return engine.einsum(pattern, *x)

    _backends.CupyBackend = _Backend  # the tests try a list of backends by these names
    _reduced = array_api.reduce

    def _reduce(tensor: Any, pattern: str, reduction: Any, **lengths: int) -> engine.Tensor:
        given = [engine.asarray(each) for each in tensor] if isinstance(tensor, list) else engine.asarray(tensor)
        return _reduced(given, pattern, reduction, **lengths)

    array_api.reduce = _reduce  # `rearrange` and `repeat` call it
