"""Objects on the path of a traced step: where one has been replaced, the step is traced again."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import State
from trainer.engine.tracing import containers, dependencies
from trainer.engine.tracing.trace import MANY_RETRACES

X = np.arange(4, dtype=np.float32)


@pytest.fixture(autouse=True)
def reference_device() -> Iterator[None]:
    """Guards are the same on every device; this one compiles nothing."""
    with engine.device("reference"):
        yield


class Scaled:
    """Multiplies; each object another factor."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, x: Any) -> Any:
        return x * self.scale

    def __getitem__(self, index: int) -> Any:
        return self.scale + index


class Slotted:
    __slots__ = ("__hidden", "inner")

    def __init__(self, scale: float) -> None:
        self.inner, self.__hidden = Scaled(scale), Scaled(scale)

    def hide(self, scale: float) -> None:
        self.__hidden = Scaled(scale)

    def __call__(self, x: Any) -> Any:
        return self.__hidden(self.inner(x))


class WithProperty:
    def __init__(self) -> None:
        self._kept = Scaled(2.0)

    @property
    def factor(self) -> Any:
        return self._kept[0]

    @staticmethod
    def shifted(x: Any) -> Any:
        return x + 1

    @classmethod
    def doubled(cls, x: Any) -> Any:
        return cls.shifted(x) * 2

    def step(self, x: Any) -> Any:
        return self.doubled(x) * self.factor


class Indirect:
    """Gets its attributes by `__getattr__`."""

    def __init__(self) -> None:
        self.parts = {"head": Scaled(2.0)}

    def __getattr__(self, name: str) -> Any:
        return self.parts[name]

    def step(self, x: Any) -> Any:
        return self.head(x)


class Task:
    def __init__(self) -> None:
        self.layers, self.by_name = [Scaled(2.0)], {"head": Scaled(3.0)}

    def step(self, x: Any) -> Any:
        return self.by_name["head"](self.layers[0](x))


Replacing = tuple[Callable[[Any], Any], Callable[[], None]]


def of_replaced_attribute() -> Replacing:
    task = Task()
    return task.step, lambda: task.by_name.update(head=Scaled(5.0))


def of_replaced_object() -> Replacing:
    holder = SimpleNamespace(inner=Scaled(2.0))
    return lambda x: holder.inner(x), lambda: setattr(holder, "inner", Scaled(3.0))


def of_list_item() -> Replacing:
    layers = [Scaled(2.0), Scaled(3.0)]
    return lambda x: [layer(x) for layer in layers], lambda: layers.__setitem__(0, Scaled(4.0))


def of_longer_list() -> Replacing:
    layers = [Scaled(2.0), Scaled(3.0)]
    return lambda x: sum(layer(x) for layer in layers), lambda: layers.append(Scaled(4.0))


def of_replaced_list() -> Replacing:
    holder = SimpleNamespace(layers=[Scaled(2.0)])
    return lambda x: holder.layers[0](x), lambda: setattr(holder, "layers", [Scaled(4.0)])


def of_nested_tuple() -> Replacing:
    holder = SimpleNamespace(layers=((Scaled(2.0),), 1))
    return lambda x: holder.layers[0][0](x), lambda: setattr(holder, "layers", ((Scaled(4.0),), 1))


def of_order_of_a_dictionary() -> Replacing:
    layers = {"first": Scaled(2.0), "second": Slotted(3.0)}
    return lambda x: [layer(x) for layer in layers.values()], lambda: layers.update(first=layers.pop("first"))


def of_key_of_a_dictionary() -> Replacing:
    layers = {"double": Scaled(2.0)}
    return lambda x: x * (2 if "double" in layers else 1), lambda: layers.update(single=layers.pop("double"))


def of_member_of_a_set() -> Replacing:
    names = {"double"}
    return lambda x: x * 2 if "double" in names else x, lambda: (names.clear(), names.add("single"))[1]


def of_set() -> Replacing:
    names = {"double"}
    return lambda x: x * 2 if "double" in names else x, lambda: names.clear()


def of_slot() -> Replacing:
    slotted = Slotted(2.0)
    return slotted, lambda: setattr(slotted, "inner", Scaled(3.0))


def of_hidden_slot() -> Replacing:
    slotted = Slotted(2.0)
    return slotted, lambda: slotted.hide(3.0)


def of_property() -> Replacing:
    holder = WithProperty()
    return holder.step, lambda: setattr(holder, "_kept", Scaled(3.0))


def of_getattr() -> Replacing:
    holder = Indirect()
    return holder.step, lambda: holder.parts.update(head=Scaled(3.0))


def of_constant_name() -> Replacing:
    holder = SimpleNamespace(inner=Scaled(2.0))
    return lambda x: getattr(holder, "inner")(x), lambda: setattr(holder, "inner", Scaled(3.0))  # noqa: B009


def of_class_of_an_object() -> Replacing:
    layer = Scaled(2.0)
    return layer, lambda: setattr(
        layer, "__class__", type("Other", (Scaled,), {"__call__": lambda self, x: x - self.scale})
    )


def of_partials_argument() -> Replacing:
    layer = Scaled(2.0)
    step = functools.partial(lambda x, layers: layers[0](x), layers=[layer])
    return step, lambda: step.keywords["layers"].__setitem__(0, Scaled(3.0))


def of_bound_method() -> Replacing:
    task = Task()
    step = task.step
    return lambda x: step(x), lambda: setattr(task, "layers", [Scaled(7.0)])


def of_replaced_method_of_an_object() -> Replacing:
    task = Task()
    return lambda x: task.step(x), lambda: setattr(task, "step", lambda x: x * 9)


def of_defaults() -> Replacing:
    def helper(x: Any, factor: Any = (2.0,)) -> Any:
        return x * factor[0]

    return lambda x: helper(x), lambda: setattr(helper, "__code__", (lambda x, factor: x - factor[0]).__code__)


def of_attribute_of_a_function() -> Replacing:
    def helper(x: Any) -> Any:
        return helper.inner(x)  # type: ignore[attr-defined]

    helper.inner = Scaled(2.0)  # type: ignore[attr-defined]
    return helper, lambda: setattr(helper, "inner", Scaled(3.0))


def of_decorated_function() -> Replacing:
    layers = [Scaled(2.0)]

    @functools.wraps(of_slot)
    def wrapper(x: Any) -> Any:
        return layers[0](x)

    return wrapper, lambda: layers.__setitem__(0, Scaled(3.0))


def of_class_made_in_the_step() -> Replacing:
    class Local:
        def __init__(self, scale: float) -> None:
            self.scale = scale * 2

        def __call__(self, x: Any) -> Any:
            return x * self.scale

    def other(self: Any, scale: float) -> None:
        self.scale = scale * 3

    return lambda x: Local(2.0)(x), lambda: setattr(Local, "__init__", other)


def of_method_of_a_class() -> Replacing:
    kind = type("Kind", (Scaled,), {"forward": lambda self, x: x * self.scale})
    holder = kind(2.0)
    return lambda x: holder.forward(x), lambda: setattr(kind, "forward", lambda self, x: x - self.scale)


def of_overridden_method() -> Replacing:
    kind = type("Kind", (Scaled,), {})
    layer = kind(2.0)
    return lambda x: layer(x), lambda: setattr(kind, "__call__", lambda self, x: x - self.scale)


def of_item_operator() -> Replacing:
    kind = type("Kind", (Scaled,), {"__getitem__": lambda self, index: self.scale})
    layer = kind(2.0)
    return lambda x: x * layer[0], lambda: setattr(kind, "__getitem__", lambda self, index: -self.scale)


def of_static_method() -> Replacing:
    kind = type("Kind", (WithProperty,), {"shifted": staticmethod(lambda x: x + 1)})
    return kind().step, lambda: setattr(kind, "shifted", staticmethod(lambda x: x + 2))


def of_replaced_property() -> Replacing:
    kind = type("Kind", (WithProperty,), {})
    return kind().step, lambda: setattr(kind, "factor", property(lambda self: 9.0))


@pytest.mark.parametrize(
    "made",
    [
        of_replaced_attribute, of_replaced_object, of_list_item, of_longer_list, of_replaced_list, of_nested_tuple,
        of_order_of_a_dictionary, of_set, of_key_of_a_dictionary, of_member_of_a_set,
        of_slot, of_hidden_slot, of_property, of_getattr, of_constant_name,
        of_class_of_an_object, of_partials_argument, of_bound_method, of_replaced_method_of_an_object, of_defaults,
        of_attribute_of_a_function, of_decorated_function, of_class_made_in_the_step, of_method_of_a_class,
        of_overridden_method, of_item_operator, of_static_method, of_replaced_property,
    ],
)  # fmt: skip
def test_a_step_is_traced_again_when_an_object_is_replaced(made: Callable[[], Replacing]) -> None:
    step, change = made()
    traced = engine.trace(step)
    before = values_of(step(X))
    for _ in range(2):
        assert values_of(traced(X)) == before
    change()
    after = values_of(step(X))
    assert after != before
    for _ in range(2):
        assert values_of(traced(X)) == after
    assert len(traced.programs) == 1


def values_of(returned: Any) -> Any:
    return [each.tolist() for each in returned] if isinstance(returned, list) else returned.tolist()


# --- arguments --------------------------------------------------------------------------------------------------------


def test_attributes_of_an_argument_are_guarded() -> None:
    first, second = SlottedLayer(2.0), SlottedLayer(3.0)
    traced = engine.trace(lambda x, layer: layer(x))
    for layer in (first, second):
        assert traced(X, layer).tolist() == layer(X).tolist()
    first.inner = Scaled(5.0)
    assert traced(X, first).tolist() == (X * 5).tolist() and traced(X, second).tolist() == (X * 3).tolist()
    first.inner.scale = 6.0
    with pytest.raises(TrainerError, match=r"layer\.inner\.scale changed after the step"):
        traced(X, first)
    assert traced(X, second).tolist() == (X * 3).tolist()


class SlottedLayer:
    __slots__ = ("inner",)

    def __init__(self, scale: float) -> None:
        self.inner = Scaled(scale)

    def __call__(self, x: Any) -> Any:
        return self.inner(x)


def test_a_number_in_an_object_that_was_replaced_raises_nothing() -> None:
    holder = SimpleNamespace(inner=Scaled(2.0))
    old = holder.inner
    traced = engine.trace(lambda x: holder.inner(x))
    traced(X)
    holder.inner, old.scale = Scaled(3.0), 4.0
    assert traced(X).tolist() == (X * 3).tolist()
    old.scale = 5.0
    assert traced(X).tolist() == (X * 3).tolist()


# --- many retraces ----------------------------------------------------------------------------------------------------


def test_many_retraces_of_one_signature_warn_once_and_name_what_changes() -> None:
    holder = SimpleNamespace(inner=Scaled(0.0))
    traced = engine.trace(lambda x: holder.inner(x))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for scale in range(2 * MANY_RETRACES):
            holder.inner = Scaled(float(scale))
            assert traced(X).tolist() == (X * scale).tolist()
    (warning,) = caught
    assert "traced again 8 times for one signature" in str(warning.message) and "holder.inner" in str(warning.message)
    assert warning.filename == __file__


def test_what_the_step_itself_replaces_is_not_traced_again() -> None:
    task, runs = SimpleNamespace(made=None, last=None, names=[]), []

    def step(x: Any) -> Any:
        runs.append(x.shape)
        if task.made is None:
            task.made = Scaled(2.0)
        task.last = Scaled(3.0)
        task.names.append("a")
        return task.made(x)

    traced = engine.trace(step)
    for _ in range(3):
        for x in (X, X[:2]):
            assert traced(x).tolist() == (x * 2).tolist()
    assert len(runs) <= 3
    task.made = Scaled(5.0)
    assert traced(X).tolist() == (X * 5).tolist()


# --- what is rebound in rarer ways ------------------------------------------------------------------------------------


def test_a_dictionary_keyed_by_states_may_get_other_keys() -> None:
    first, second = State(np.ones(4, np.float32)), State(np.ones(3, np.float32))
    moments = {first: State(np.full(4, 2.0, np.float32))}
    traced = engine.trace(lambda x: x * next(iter(moments.values())))
    assert traced(X).tolist() == (X * 2).tolist()
    moments[second] = moments.pop(first)
    moments[second] = State(np.full(4, 3.0, np.float32))
    assert traced(X).tolist() == (X * 3).tolist()


def test_the_dictionary_of_an_object_and_the_bases_of_a_class_may_be_replaced() -> None:
    layer, base = Scaled(2.0), type("Base", (), {"shift": lambda self, x: x + 1})
    kind = type("Kind", (base,), {})
    shifting = kind()
    traced = engine.trace(lambda x: shifting.shift(layer(x)))
    assert traced(X).tolist() == (X * 2 + 1).tolist()
    kind.__bases__ = (type("Base", (), {"shift": lambda self, x: x - 1}),)
    assert traced(X).tolist() == (X * 2 - 1).tolist()
    layer.__dict__ = {"scale": State(np.float32(3.0))}
    assert traced(X).tolist() == (X * 3 - 1).tolist()


def test_a_step_within_another_may_run_a_callable_object() -> None:
    layer = SlottedLayer(2.0)
    inner = engine.trace(layer)
    traced = engine.trace(lambda x: inner(x) + 1)
    assert traced(X).tolist() == (X * 2 + 1).tolist()
    layer.inner = Scaled(3.0)
    assert traced(X).tolist() == (X * 3 + 1).tolist()


def test_a_long_list_is_guarded_by_its_identity_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "LONGEST", 2)
    holder = SimpleNamespace(layers=[Scaled(2.0)] * 3)
    traced = engine.trace(lambda x: holder.layers[-1](x))
    traced(X)
    holder.layers.append(Scaled(3.0))
    assert traced(X).tolist() == (X * 3).tolist()
    holder.layers = [Scaled(4.0)] * 4
    assert traced(X).tolist() == (X * 4).tolist()


def test_more_objects_than_are_guarded_give_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "MOST_OBJECTS", 10)
    layers = [Scaled(float(scale)) for scale in range(20)]
    with pytest.warns(RuntimeWarning, match="depends on more than") as caught:
        engine.trace(lambda x: layers[0](x))(X)
    assert caught[0].filename == __file__
