"""Python values that a traced step was built from: what changes raises and is named, what has no part in it may."""

from __future__ import annotations

import copy
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import State, nn
from trainer.engine.compile.trace import MANY_RETRACES

X = np.arange(4, dtype=np.float32)

FACTOR = 2.0
SETTINGS = SimpleNamespace(factor=2.0)
assign = 0
"""Shares its name with a method that steps call, as a loop's variable may."""


@pytest.fixture(autouse=True)
def reference_device() -> Iterator[None]:
    """Guards are the same on every device; this one compiles nothing."""
    with engine.device("reference"):
        yield


class Layer:
    slope = 1.0

    def __init__(self) -> None:
        self.scale = 2.0
        self.unused = 0

    @classmethod
    def scaled(cls, scale: float) -> Any:
        layer = cls()
        layer.scale = scale
        return layer

    def __call__(self, x: Any) -> Any:
        return x * self.scale * self.slope


class Task:
    def __init__(self) -> None:
        self.layers, self.by_name = [Layer()], {"head": Layer()}
        self.rate, self.steps, self.mask, self.seen = 0.5, 0, X, None
        self.total = State(np.zeros((), np.float32), "total")

    def step(self, x: Any) -> Any:
        return self.by_name["head"](self.layers[0](x)) * self.rate * self.mask

    def counting_step(self, x: Any) -> Any:
        self.steps += 1
        return x * 1.0

    def remembering_step(self, x: Any) -> Any:
        self.seen = "yes"
        return x * 1.0

    def totalling_step(self, x: Any) -> Any:
        self.total.assign(self.total + engine.sum(x))
        return x * 1.0


def of_attribute() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: setattr(task, "rate", 0.25)


def of_replaced_array() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: setattr(task, "mask", X + 1)


def of_listed_module() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: setattr(task.layers[0], "scale", 3.0)


def of_module_in_a_dictionary() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: setattr(task.by_name["head"], "scale", 3)


def of_class_attribute() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: setattr(task.layers[0], "slope", 0.1)


def of_deleted_attribute() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: delattr(task, "rate")


def of_callable() -> tuple[Any, Callable[[], None]]:
    layer = Layer()
    return layer, lambda: setattr(layer, "scale", 3.0)


def of_partial() -> tuple[Any, Callable[[], None]]:
    layer = Layer()
    return functools.partial(lambda layer, x: layer(x), layer), lambda: None


def of_cell() -> tuple[Any, Callable[[], None]]:
    rate = 0.5

    def change() -> None:
        nonlocal rate
        rate = 0.25

    return lambda x: x * rate, change


def of_helpers_cell() -> tuple[Any, Callable[[], None]]:
    rate = 0.5

    def change() -> None:
        nonlocal rate
        rate = 0.25

    def helper(x: Any) -> Any:
        return x * rate

    return lambda x: helper(x), change


def of_nested_step() -> tuple[Any, Callable[[], None]]:
    step, change = of_cell()
    inner = engine.trace(step)
    return lambda x: inner(x) + 1, change


def of_tensor_cell() -> tuple[Any, Callable[[], None]]:
    mask = engine.asarray(X)

    def change() -> None:
        nonlocal mask
        mask = mask + 1

    return lambda x: x * mask, change


def scaled_by_global(x: Any) -> Any:
    return x * FACTOR


def of_global() -> tuple[Any, Callable[[], None]]:
    return scaled_by_global, lambda: globals().update(FACTOR=3.0)


def of_helpers_global() -> tuple[Any, Callable[[], None]]:
    return lambda x: scaled_by_global(x), lambda: globals().update(FACTOR=3.0)


def of_global_object() -> tuple[Any, Callable[[], None]]:
    return lambda x: x * SETTINGS.factor, lambda: setattr(SETTINGS, "factor", 3.0)


@pytest.fixture(autouse=True)
def globals_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    monkeypatch.setattr(SETTINGS, "factor", 2.0)


@pytest.mark.parametrize(
    ("made", "name", "found", "expected"),
    [
        (of_attribute, "self.rate", "0.25", "0.5"),
        (of_replaced_array, "self.mask", "another one", "the ndarray"),
        (of_listed_module, "self.layers[0].scale", "3.0", "2.0"),
        (of_module_in_a_dictionary, "self.by_name['head'].scale", "3", "2.0"),
        (of_class_attribute, "self.layers[0].slope", "0.1", "1.0"),
        (of_deleted_attribute, "self.rate", "nothing", "0.5"),
        (of_callable, "self.scale", "3.0", "2.0"),
        (of_cell, "rate", "0.25", "0.5"),
        (of_helpers_cell, "rate", "0.25", "0.5"),
        (of_nested_step, "rate", "0.25", "0.5"),
        (of_tensor_cell, "mask", "another one", "the Tensor"),
        (of_global, "FACTOR", "3.0", "2.0"),
        (of_helpers_global, "FACTOR", "3.0", "2.0"),
        (of_global_object, "SETTINGS.factor", "3.0", "2.0"),
    ],
)
def test_a_value_that_changes_raises_and_is_named(
    made: Callable[[], Any], name: str, found: str, expected: str
) -> None:
    step, change = made()
    traced = engine.trace(step)
    for _ in range(2):
        traced(X)
    change()
    with pytest.raises(TrainerError) as caught:
        traced(X)
    error = caught.value
    assert error.message == f"{name} changed after the step that uses it was traced"
    assert (error.found, error.expected) == (found, f"{expected}, as it was when the step was traced")
    assert str(error.where).rpartition(":")[0].endswith("test_guards.py")


# --- what is replaced is traced again ---------------------------------------------------------------------------------


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


Replacing = tuple[Callable[[Any], Any], Callable[[], None]]


def of_replaced_attribute() -> Replacing:
    task = Task()
    return task.step, lambda: task.by_name.update(head=Layer.scaled(5.0))


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
    return lambda x: step(x), lambda: setattr(task, "layers", [Layer.scaled(7.0)])


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

    @functools.wraps(of_cell)
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
        of_order_of_a_dictionary, of_set, of_slot, of_hidden_slot, of_property, of_getattr, of_constant_name,
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


MODULE = """
import config
layer = config.Layer(2.0)
factor = config.factor
def step(x):
    return config.shifted(layer(x)) * config.settings.inner(max(x.shape)) * config.Layer.slope
def step_that_imports(x):
    import config as settings
    from config import shifted
    return shifted(x) + settings.layers["a"](x)
"""
CONFIG = """
class Layer:
    slope = (1.0,)[0]
    def __init__(self, scale):
        self.scale = scale
    def __call__(self, x):
        return x * self.scale
factor = 2.0
layers = {"a": Layer(3.0)}
settings = Layer(1.0)
settings.inner = Layer(2.0)
def shifted(x):
    return x + 1
"""


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module as a notebook has it, and the module `config` that it imports."""
    config, module = ModuleType("config"), ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "config", config)
    exec(CONFIG, config.__dict__)
    exec(MODULE, module.__dict__)
    return module


@pytest.mark.parametrize(
    "change",
    [
        "layer = config.Layer(5.0)",
        "config.shifted = lambda x: x - 1",
        "config.settings = config.settings.inner; config.settings.inner = config.Layer(9.0)",
        "config.settings.inner = config.Layer(7.0)",
        "config.Layer.__call__ = lambda self, x: x - self.scale",
        "max = lambda shape: 100",
        "import types; config = types.SimpleNamespace(**vars(config)); config.shifted = lambda x: x + 3",
        "step.__globals__.update(layer=config.Layer(6.0))",
    ],
)
def test_a_notebook_may_bind_anything_anew(notebook: Any, change: str) -> None:
    traced = engine.trace(notebook.step)
    before = traced(X).tolist()
    assert before == traced(X).tolist() == notebook.step(X).tolist()
    exec(change, notebook.__dict__)
    after = notebook.step(X).tolist()
    assert after != before
    assert traced(X).tolist() == traced(X).tolist() == after


@pytest.mark.parametrize("change", ["config.shifted = lambda x: x - 1", "config.layers['a'] = config.Layer(5.0)"])
def test_modules_that_a_step_imports_are_guarded(notebook: Any, change: str) -> None:
    traced = engine.trace(notebook.step_that_imports)
    before = traced(X).tolist()
    exec(change, notebook.__dict__)
    assert traced(X).tolist() == notebook.step_that_imports(X).tolist() != before


def test_a_number_in_a_module_raises(notebook: Any) -> None:
    exec("def step(x): return x * config.factor", notebook.__dict__)
    traced = engine.trace(notebook.step)
    traced(X)
    notebook.config.factor = 3.0
    with pytest.raises(TrainerError, match=r"config\.factor changed after the step"):
        traced(X)


# --- parameters and layers --------------------------------------------------------------------------------------------


def replaced_parameter(net: Any) -> None:
    net.first.weight = nn.Parameter(np.full((4, 4), 2.0, np.float32))


def replaced_layer(net: Any) -> None:
    net.first = nn.Linear(4, 4)
    net.first.weight = nn.Parameter(np.full((4, 4), 2.0, np.float32))


def replaced_class_of_layer(net: Any) -> None:
    net.first = nn.Identity()


def added_layer(net: Any) -> None:
    net.layers.append(nn.Linear(4, 4).set_seed(9))


def removed_bias(net: Any) -> None:
    net.first.bias = None


def swapped_layers(net: Any) -> None:
    one, two = net.layers
    setattr(net.layers, "0", two)
    setattr(net.layers, "1", one)


def converted(net: Any) -> None:
    net.astype(engine.float64)


def replaced_forward(net: Any) -> None:
    net.first.forward = lambda x: x * 3


class Net(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(4, 4)
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    def forward(self, x: Any) -> Any:
        return self.layers(self.first(x))


@pytest.mark.parametrize(
    "change",
    [
        replaced_parameter, replaced_layer, replaced_class_of_layer, added_layer, removed_bias, swapped_layers,
        converted, replaced_forward,
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_argument", [False, True])
def test_replaced_parts_of_a_network_are_traced_again(change: Callable[[Any], None], is_argument: bool) -> None:
    net, x = Net().set_seed(1), np.ones((2, 4), np.float32)
    traced = engine.trace(lambda net, x: net(x)) if is_argument else engine.trace(lambda _, x: net(x))
    before = traced(net, x).tolist()
    assert traced(net, x).tolist() == before == net(x).tolist()
    change(net)
    after = net(x)
    assert after.tolist() != before
    found = traced(net, x)
    assert found.dtype is after.dtype and found.tolist() == traced(net, x).tolist() == after.tolist()


def test_parameters_that_are_made_later_and_that_no_step_uses_change_nothing() -> None:
    net = Net().set_seed(1)
    runs: list[int] = []

    def step(x: Any) -> Any:
        runs.append(1)
        return net.first(x)

    traced = engine.trace(step)
    traced(np.ones((2, 4), np.float32))
    net.state_dict()
    traced(np.ones((2, 4), np.float32))
    assert len(runs) == 1


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


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "now"), [(0.0, -0.0), (1, 1.0), (1, True), (1.0, np.float64(1.0)), (b"a", "a")])
def test_plain_values_are_compared_exactly(before: Any, now: Any) -> None:
    holder = SimpleNamespace(value=before)
    traced = engine.trace(lambda x: (x, holder.value)[0] + 0)
    traced(X)
    holder.value = now
    with pytest.raises(TrainerError, match=r"holder\.value changed"):
        traced(X)


@pytest.mark.parametrize("values", [(float("nan"), float("nan") * 2), ((3, 4), (3, 4)), ([1000, "a"], [1000, "a"])])
def test_equal_values_are_as_good(values: tuple[Any, Any]) -> None:
    holder, runs = SimpleNamespace(value=copy.deepcopy(values[0])), []

    def step(x: Any) -> Any:
        runs.append(1)
        return (x, holder.value)[0] + 0

    traced = engine.trace(step)
    for value in values:
        holder.value = copy.deepcopy(value)
        traced(X)
    assert len(runs) == 1


@pytest.mark.parametrize("change", [lambda sizes: sizes.__setitem__(1, 5), lambda sizes: sizes.reverse()])
def test_a_number_in_a_list_raises(change: Callable[[list[int]], None]) -> None:
    sizes = [3, 4]
    traced = engine.trace(lambda x: x * sizes[1])
    traced(X)
    change(sizes)
    with pytest.raises(TrainerError, match=r"sizes\[[01]\] changed after the step"):
        traced(X)


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


# --- what a step assigns itself ---------------------------------------------------------------------------------------


def test_a_counter_in_an_attribute_raises_when_it_is_traced() -> None:
    with pytest.raises(TrainerError, match=r"self\.steps is assigned inside a traced step") as caught:
        engine.trace(Task().counting_step)(X)
    assert caught.value.found == "0 before and 1 after tracing"


def test_a_counter_in_a_closure_raises_when_it_is_traced() -> None:
    count = 0

    def step(x: Any) -> Any:
        nonlocal count
        count += 1
        return x

    with pytest.raises(TrainerError, match="count is assigned inside a traced step"):
        engine.trace(step)(X)


@pytest.mark.parametrize("name", ["step", "remembering_step", "totalling_step"])
def test_a_step_that_keeps_its_values_replays(name: str) -> None:
    task = Task()
    traced = engine.trace(getattr(task, name))
    for _ in range(3):
        traced(X)
        task.layers[0].unused += 1
    assert task.total.item() == (18.0 if name == "totalling_step" else 0.0)


def test_a_global_that_only_shares_its_name_with_a_method_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    total = State(np.zeros((), np.float32))

    def step(x: Any) -> None:
        total.assign(total + engine.sum(x))

    traced = engine.trace(step)
    for value in range(3):
        monkeypatch.setitem(globals(), "assign", value)
        traced(X)
    assert total.item() == 18.0


def test_a_partial_replays() -> None:
    step, _ = of_partial()
    traced = engine.trace(step)
    assert traced(X).tolist() == traced(X).tolist() == (X * 2).tolist()
