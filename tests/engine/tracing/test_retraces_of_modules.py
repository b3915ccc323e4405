"""Notebooks that bind names again, modules that hold settings, and networks whose parts are replaced between steps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn

X = np.arange(4, dtype=np.float32)


@pytest.fixture(autouse=True)
def reference_device() -> Iterator[None]:
    """Guards are the same on every device; this one compiles nothing."""
    with engine.device("reference"):
        yield


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
