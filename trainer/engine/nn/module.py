"""Module: a tree of layers with parameters, buffers and a state dictionary under the usual names."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from trainer import TrainerError
from trainer.engine.graph.dtypes import DType
from trainer.engine.nn.initializers import generator_for
from trainer.engine.nn.parameter import Declaration, Parameter
from trainer.engine.state import State
from trainer.engine.tensor import Tensor

Self = TypeVar("Self", bound="Module")


class LoadReport(NamedTuple):
    """Names without a value and names that the model does not have, as `load_state_dict(strict=False)` found them."""

    missing: list[str]
    unexpected: list[str]


class Module:
    """Base of layers and models.

    Attributes that are modules become children, `Parameter`s and their declarations become parameters, other `State`s
    and declarations become buffers, each in order of first assignment. Subclasses define `forward`; call the module.

    Initial values are a function of (seed, path from the root): see `set_seed`.
    """

    training: bool
    _states: dict[str, State | Declaration]
    _children: dict[str, Module]
    _computed: dict[str, Callable[[Any], Tensor]]
    """Attributes that are recomputed from states on each read (`nn.spectral_norm`, `nn.weight_norm`)."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        module = super().__new__(cls)
        fields = module.__dict__
        fields["_states"], fields["_children"], fields["_computed"], fields["training"] = {}, {}, {}, True
        fields["_parent"], fields["_name"], fields["_seed"] = None, "", 0
        return module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the module's result; defined by subclasses."""
        raise TrainerError(f"{type(self).__name__} has no `forward` method")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def _check_shape(self, holds: bool, x: Tensor, expected: str) -> None:
        """Raises an error unless `holds`, the layer's condition on the shape of `x`."""
        if not holds:
            problem = f"{self.path or type(self).__name__} got a tensor of another shape"
            raise TrainerError(problem, found=f"shape {x.shape}", expected=expected)

    # --- attributes -----------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            self._forget(name, keep=self._children)
            self._children[name] = value
            if value._parent is None:
                value.__dict__["_parent"], value.__dict__["_name"] = weakref.ref(self), name
        elif isinstance(value, State | Declaration):
            self._forget(name, keep=self._states)
            self._states[name] = value
        else:
            self._forget(name, keep={})
            self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:  # called only if ordinary lookup fails
        if name in self._states:
            return self._state(name)
        if name in self._children:
            return self._children[name]
        if name in self._computed:
            return self._computed[name](self)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        if name in self._states or name in self._children:
            self._forget(name, keep={})
        else:
            super().__delattr__(name)

    def _forget(self, name: str, *, keep: Mapping[str, Any]) -> None:
        for places in (self._states, self._children, self._computed, self.__dict__):
            if places is not keep:
                places.pop(name, None)

    def _state(self, name: str) -> State:
        state = self._states[name]
        if isinstance(state, Declaration):
            root, path = self._root_and_path()
            full_name = _joined(path, name)
            values = state.initializer(generator_for(root._seed, full_name), state.shape)
            state = self._states[name] = _made(state, values, full_name)
        return state

    # --- place in the tree ----------------------------------------------------------------------------------------

    def set_seed(self: Self, seed: int, name: str = "") -> Self:
        """Draws initial values from `seed`, with `name` before each path (so that two equal models of a task differ).

        Affects only values that have not been read or loaded yet. Call it on the root.
        """
        self.__dict__["_seed"] = seed
        if self._parent is None or self._parent() is None:
            self.__dict__["_name"] = name
        return self

    @property
    def path(self) -> str:
        """The module's path: the root's name and the attributes that lead to the module, joined by dots."""
        return self._root_and_path()[1]

    def _root_and_path(self) -> tuple[Module, str]:
        module, names = self, [self._name]
        while module._parent is not None and (parent := module._parent()) is not None:
            module = parent
            names.append(module._name)
        return module, ".".join(name for name in reversed(names) if name)

    # --- walking --------------------------------------------------------------------------------------------------

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yields (path, module) of this module and its descendants, parents first, each module once."""
        visited: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if id(module) in visited:
                continue
            visited.add(id(module))
            yield path, module
            stack.extend((_joined(path, name), child) for name, child in reversed(module._children.items()))

    def modules(self) -> Iterator[Module]:
        """This module and its descendants."""
        return (module for _, module in self.named_modules())

    def named_states(self) -> dict[str, State]:
        """Parameters and buffers by name, each object once: the entries of a state dictionary."""
        states: dict[State, str] = {}
        for name, module, attribute in self._places():
            states.setdefault(module._state(attribute), name)
        return {name: state for state, name in states.items()}

    def named_shapes(self, *, each_once: bool = False) -> dict[str, tuple[int, ...]]:
        """Shapes of parameters and buffers by name, without creating them; shared ones by all names, or `each_once`."""
        shapes: dict[str, tuple[int, ...]] = {}
        visited: set[int] = set()
        for name, module, attribute in self._places():
            state = module._states[attribute]
            if not each_once or id(state) not in visited:
                shapes[name] = state.shape
            visited.add(id(state))
        return shapes

    def _places(self) -> Iterator[tuple[str, Module, str]]:
        """Yields (name, module, attribute) of each parameter and buffer; one that two modules share comes twice."""
        for path, module in self.named_modules():
            for attribute in module._states:
                yield _joined(path, attribute), module, attribute

    def named_parameters(self) -> dict[str, Parameter]:
        """The parameters by name."""
        return {name: state for name, state in self.named_states().items() if isinstance(state, Parameter)}

    def parameters(self) -> list[Parameter]:
        """The parameters, in the order of `named_parameters`."""
        return list(self.named_parameters().values())

    def named_buffers(self) -> dict[str, State]:
        """The states that are not parameters, by name."""
        return {name: state for name, state in self.named_states().items() if not isinstance(state, Parameter)}

    # --- modes ----------------------------------------------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        """Sets training mode (dropout, batch statistics) for this module and its descendants."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Sets inference mode for this module and its descendants."""
        return self.train(False)

    def astype(self: Self, dtype: DType) -> Self:
        """Converts all floating-point parameters and buffers to another dtype. Call it before creating an optimizer."""
        for module in self.modules():
            for name, state in module._states.items():
                if not state.dtype.is_float or state.dtype == dtype:
                    continue
                if isinstance(state, Declaration):
                    module._states[name] = Declaration(state.shape, state.initializer, dtype, state.is_buffer)
                elif isinstance(state, Parameter):
                    module._states[name] = Parameter(state.numpy(), state.name, dtype)
                else:
                    module._states[name] = State(state.numpy(), state.name, dtype)
        return self

    # --- state dictionary -----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of all parameters and buffers by name."""
        return {name: state.numpy() for name, state in self.named_states().items()}

    def load_state_dict(self, values: Mapping[str, Any], *, strict: bool = True) -> LoadReport:
        """Sets parameters and buffers from arrays by name; dtypes are converted.

        Raises:
            TrainerError: a shape differs, or (with `strict`) a name is missing or unexpected. No value is changed.
        """
        places = {name: (module, attribute) for name, module, attribute in self._places()}
        missing = [name for name in places if name not in values]
        report = LoadReport(missing, [name for name in values if name not in places])
        problems = [f"{kind}: {name}" for kind, names in report._asdict().items() for name in names] if strict else []
        arrays = {name: np.asarray(values[name]) for name in places if name in values}
        for name, array in arrays.items():
            module, attribute = places[name]
            expected = module._states[attribute].shape
            if array.shape != expected:
                problems.append(f"{name}: shape {array.shape} where the model has {expected}")
        if problems:
            shown = problems[:20] + ([f"and {len(problems) - 20} more"] if len(problems) > 20 else [])
            raise TrainerError(f"the values do not match {type(self).__name__}", found="\n            ".join(shown))
        for name, array in arrays.items():
            module, attribute = places[name]
            state = module._states[attribute]
            if isinstance(state, Declaration):
                module._states[attribute] = _made(state, array, name)
            else:
                state.set_value(array)
        return report

    # --- representation -------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Returns what `repr` shows in the parentheses, before any children."""
        return ""

    def __repr__(self) -> str:
        if not self._children:
            return f"{type(self).__name__}({self.extra_repr()})"
        lines = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self._children.items()]
        return "\n".join([f"{type(self).__name__}({self.extra_repr()}", *lines, ")"])


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _made(declaration: Declaration, values: np.ndarray, name: str) -> State:
    if values.shape != declaration.shape:
        raise TrainerError(
            f"the initializer of {name} gave another shape", found=values.shape, expected=declaration.shape
        )
    kind = State if declaration.is_buffer else Parameter
    return kind(values, name, declaration.dtype)
