"""Random programs, traced and untraced, between whose calls anything that they read is bound again.

A traced step may refuse to run (`TrainerError`) only where a plain number, a string or an array is what changed; every
other call gives what the untraced function gives.
"""

from __future__ import annotations

import functools
import random
import sys
import warnings
from collections.abc import Callable
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import State, nn
from trainer.engine.targets.cpu.device import CpuDevice

X = np.arange(1, 4, dtype=np.float32)
CALLS = 8

COMMON = """
import cfg
class Base:
    kind = 2.0
    def helper(self, x):
        return x + 1
class Node(Base):
    def __init__(self, scale):
        self.scale = scale
        self._kept = Leaf(scale)
        self.inner = Leaf(scale)
    def __call__(self, x):
        return x * self.scale
    def method(self, x):
        return self.helper(x) * self.kind
    @property
    def kept(self):
        return self._kept.value
    @staticmethod
    def static(x):
        return x + 2
    @classmethod
    def made(cls, x):
        return cls.static(x) * 2
    def __getitem__(self, index):
        return self.inner.value + index
class Leaf:
    __slots__ = ("value", "inner")
    def __init__(self, value):
        self.value = value
        self.inner = (value, value + 1)
def shift(x, by=(1.0,)):
    return x + by[0]
def free(x):
    return shift(x) * 2
"""
CFG = """
import types
class Part:
    def __init__(self, value):
        self.value = value
part = Part(3.0)
scale = 2.0
def scaled(x):
    return x * 3
"""

EXPRESSIONS = [
    "node(x)", "node.method(x)", "x * node.kept", "node.made(x)", "node.static(x)", "x * node[1]",
    "x * node.inner.value", "x * node.inner.inner[0]", "shift(x)", "free(x)", "x * cfg.scale", "x * cfg.part.value",
    "cfg.scaled(x)", "layers[0](x)", "layers[-1].method(x)", "sum(each(x) for each in layers)", "table['a'](x)",
    "[value(x) for value in table.values()][0]", "x * weight", "x * net.first.weight[0]", "net(x)", "cell(x)",
    "x * cell.scale", "partial(x)", "x * getattr(node, 'scale')", "bound(x)", "x * pair[0].value", "x * len(layers)",
    "Node(2.0)(x)", "argument(x)", "argument.method(x)", "x * argument.kept", "x + array", "x * argument.inner.value",
    "(x if flag else -x)", "max(1.0, 2.0) * x", "nested['deep'][0].inner.value * x",
    "next(iter(layers)).inner.value * x",
]  # fmt: skip


class Net(nn.Module):
    """Weights that are numbers, so that networks of one seed differ."""

    def __init__(self, value: float) -> None:
        self.first = nn.Linear(3, 3)
        self.first.weight = nn.Parameter(np.full((3, 3), value, np.float32))
        self.first.bias = None
        self.second = nn.Identity()

    def forward(self, x: Any) -> Any:
        return self.second(self.first(engine.reshape(x, (1, 3))))


class Program:
    """A synthetic module, a step of random expressions in it, and random changes to what it reads."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cfg, self.module = ModuleType("cfg"), ModuleType(f"program{seed}")
        sys.modules["cfg"] = self.cfg
        exec(CFG, self.cfg.__dict__)
        exec(COMMON, self.module.__dict__)
        space = self.space = self.module.__dict__
        node = space["Node"]
        space.update(
            node=node(self.number()),
            layers=[node(self.number()), node(self.number())],
            table={"a": node(self.number()), "b": node(self.number())},
            weight=State(np.float32(self.number())),
            net=Net(self.number()),
            pair=(space["Leaf"](self.number()),),
            nested={"deep": [node(self.number())]},
            array=np.float32([1, 2, 3]),
            flag=True,
        )
        space["partial"] = functools.partial(lambda x, layers: layers[0](x), layers=[node(self.number())])
        space["bound"] = space["node"].method
        self.arguments = [node(self.number()), node(self.number())]
        terms = self.random.sample(EXPRESSIONS, self.random.randint(1, 6))
        self.source = " + ".join(f"0.5 * ({term})" for term in terms)
        exec(
            f"def factory(cell):\n def step(x, argument): return {self.source}\n def rebind(new):\n  nonlocal cell\n"
            "  cell = new\n return step, rebind",
            space,
        )
        self.step, self.rebind = space["factory"](node(self.number()))
        self.changes = [getattr(self, name) for name in dir(type(self)) if name.startswith("change_")]
        self.values = [getattr(self, name) for name in dir(type(self)) if name.startswith("value_")]

    def number(self) -> float:
        return self.random.randint(1, 40) / 8

    def new(self) -> Any:
        """A new node, sometimes of another class."""
        kind = self.space["Node"]
        if self.random.random() < 0.3:
            kind = type("Other", (kind,), {"__call__": lambda self, x: x - self.scale})
        return kind(self.number())

    def any_node(self) -> Any:
        space = self.space
        nodes = [space["node"], *space["layers"], *space["table"].values(), *self.arguments, space["nested"]["deep"][0]]
        return self.random.choice(nodes)

    # --- objects: the step is traced again ----------------------------------------------------------------------------

    def change_global(self) -> None:
        self.space["node"] = self.new()

    def change_attribute(self) -> None:
        name = self.random.choice(["inner", "_kept"])
        setattr(self.any_node(), name, self.space["Leaf"](self.number()))

    def change_list(self) -> None:
        layers = self.space["layers"]
        change = self.random.choice(["item", "append", "pop", "list", "reverse"])
        if change == "append":
            layers.append(self.new())
        elif change == "pop" and len(layers) > 1:
            layers.pop()
        elif change == "reverse":
            layers.reverse()
        elif change == "list":
            self.space["layers"] = [*layers[1:], self.new()]
        else:
            layers[self.random.randrange(len(layers))] = self.new()

    def change_table(self) -> None:
        table = self.space["table"]
        if self.random.random() < 0.5:
            table["a"] = table.pop("a")
        else:
            table[self.random.choice("abc")] = self.new()

    def change_nested(self) -> None:
        self.space["nested"]["deep"][0] = self.new()

    def change_cell(self) -> None:
        self.rebind(self.new())

    def change_argument(self) -> None:
        self.arguments[self.random.randrange(2)] = self.new()

    def change_function(self) -> None:
        by = self.number()
        self.space["shift"] = lambda x: x + by

    def change_builtin(self) -> None:
        by = self.number()
        self.space["max"] = lambda *given: by

    def change_module(self) -> None:
        by = self.number()
        if self.random.random() < 0.5:
            self.cfg.scaled = lambda x: x * by  # type: ignore[attr-defined]
        else:
            self.cfg.part = self.cfg.Part(by)  # type: ignore[attr-defined]

    def change_method(self) -> None:
        by = self.number()
        kind = self.random.choice([self.space["Node"], self.space["Base"]])
        change: dict[str, Callable[[], Any]] = {
            "helper": lambda: lambda self, x: x + by,
            "method": lambda: lambda self, x: self.helper(x) * by,
            "static": lambda: staticmethod(lambda x: x + by),
            "made": lambda: classmethod(lambda cls, x: cls.static(x) * by),
            "kept": lambda: property(lambda self: self._kept.inner[0] * by),
            "__call__": lambda: lambda self, x: x * self.scale + by,
            "__getitem__": lambda: lambda self, index: by + index,
        }
        name = self.random.choice(list(change))
        setattr(kind, name, change[name]())

    def change_method_of_an_object(self) -> None:
        by = self.number()
        self.any_node().helper = lambda x: x + by

    def change_code(self) -> None:
        free: FunctionType = self.space["free"]
        free.__code__ = self.random.choice([lambda x: x * 3, lambda x: x * 5]).__code__

    def change_state(self) -> None:
        self.space["weight"] = State(np.float32(self.number()))

    def change_value_of_a_state(self) -> None:
        self.space["weight"].set_value(np.float32(self.number()))

    def change_parameter(self) -> None:
        self.space["net"].first.weight = nn.Parameter(np.full((3, 3), self.number(), np.float32))

    def change_layer(self) -> None:
        new = Net(self.number()).first if self.random.random() < 0.5 else nn.Identity()
        setattr(self.space["net"], self.random.choice(["first", "second"]), Net(self.number()).first)
        self.space["net"].second = new

    def change_network(self) -> None:
        self.space["net"] = Net(self.number())

    def change_slot(self) -> None:
        leaf = self.space["pair"][0]
        if self.random.random() < 0.5:
            self.space["pair"] = (self.space["Leaf"](self.number()),)
        else:
            leaf.inner = (leaf.value,)

    def change_partial(self) -> None:
        self.space["partial"].keywords["layers"][0] = self.new()

    def change_bound(self) -> None:
        self.space["bound"] = self.any_node().method

    def change_nothing(self) -> None:
        self.space["unused"] = self.number()
        self.any_node().unused = self.number()

    # --- values: the step may refuse to run ---------------------------------------------------------------------------

    def value_attribute(self) -> None:
        self.any_node().scale = self.number()

    def value_slot(self) -> None:
        self.any_node().inner.value = self.number()

    def value_module(self) -> None:
        self.cfg.scale = self.number()  # type: ignore[attr-defined]

    def value_global(self) -> None:
        self.space["flag"] = not self.space["flag"]

    def value_array(self) -> None:
        self.space["array"] = np.float32([3, 2, 1]) * self.number()

    def value_defaults(self) -> None:
        if self.space["shift"].__defaults__:
            self.space["shift"].__defaults__ = ((self.number(),),)

    def value_class(self) -> None:
        self.space["Base"].kind = self.number()

    def value_of_the_network(self) -> None:
        self.space["net"].first.training = not self.space["net"].first.training


def run(seed: int) -> None:
    program = Program(seed)
    step = program.step  # without the program itself, whose methods assign what the step reads
    traced = engine.trace(lambda x, argument: step(x, argument)) if seed % 3 else engine.trace(step)
    kept = SimpleNamespace(changes=["the beginning"])
    has_new_values = False
    for call in range(CALLS):
        if call > 1:
            is_value = program.random.random() < 0.15
            has_new_values |= is_value
            change = program.random.choice(program.values if is_value else program.changes)
            change()
            kept.changes.append(change.__name__)
        argument = program.random.choice(program.arguments)
        try:
            expected = program.step(X, argument)
        except (TypeError, ValueError, IndexError, TrainerError):
            return  # the change has made nonsense of the step
        try:
            found = traced(X, argument)
        except TrainerError as error:
            assert has_new_values, f"seed {seed}, {program.source}, after {kept.changes}: {error}"
            assert "changed after the step" in str(error), f"seed {seed}: {error}"
            traced = engine.trace(program.step)
            has_new_values = False
            continue
        message = f"seed {seed}, {program.source}, after {kept.changes}"
        np.testing.assert_allclose(found.numpy(), np.asarray(expected), rtol=1e-5, err_msg=message)


@pytest.mark.parametrize("part", range(2))
def test_random_programs_on_the_reference_device(part: int) -> None:
    run_all("reference", range(15 * part, 15 * part + 15))


def test_random_programs_on_the_processor(cpu: CpuDevice) -> None:
    run_all(cpu, range(30, 36))


@pytest.mark.full
@pytest.mark.parametrize("part", range(10))
def test_many_random_programs_on_the_reference_device(part: int) -> None:
    run_all("reference", range(1000 + 300 * part, 1300 + 300 * part))


@pytest.mark.full
def test_many_random_programs_on_the_processor(cpu: CpuDevice) -> None:
    run_all(cpu, range(10000, 10100))


def run_all(device: Any, seeds: range) -> None:
    with engine.device(device), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            for seed in seeds:
                run(seed)
        finally:
            sys.modules.pop("cfg", None)
