"""Every public name of the engine has a docstring and an example, and the examples print what the pages say."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.engine.examples import PAGES, failures, used_names
from trainer import engine
from trainer.engine import functions, nn, random
from trainer.engine.graph.dtypes import DType
from trainer.engine.nn import functional

MODULES = (engine.linalg, engine.fft, random)


def public_names() -> list[str]:
    """Classes and functions of `engine`, its modules, `nn` and `nn.functional`, as examples write them."""
    modules = {
        "engine": (engine, engine.__all__),
        "engine.linalg": (engine.linalg, engine.linalg.__all__),
        "engine.fft": (engine.fft, engine.fft.__all__),
        "engine.random": (random, [name for name in vars(random) if not name.startswith("_")]),
        "nn": (nn, [name for name in vars(nn) if not name.startswith("_")]),
        "functional": (functional, functional.__all__),
    }
    found = []
    for prefix, (module, names) in modules.items():
        for name in names:
            value = getattr(module, name)
            is_own = getattr(value, "__module__", "").startswith("trainer.engine")
            is_here = prefix != "engine.random" or getattr(value, "__module__", "") == random.__name__
            if is_own and is_here and callable(value) and not isinstance(value, DType):
                found.append(f"{prefix}.{name}")
    return found


def docstring(name: str) -> str:
    """That of a name as examples write it."""
    module, _, last = name.rpartition(".")
    spaces = {module.__name__.rpartition(".")[2]: module for module in (engine, *MODULES, nn, functional)}
    return inspect.getdoc(getattr(spaces[module.rpartition(".")[2]], last)) or ""


def test_every_public_name_has_an_example():
    """On one of the pages, or in its docstring."""
    used = set().union(*(used_names(page) for page in PAGES))
    missing = [name for name in public_names() if name not in used and ">>> " not in docstring(name)]
    assert not missing, "add examples to docs/functions.md or docs/layers.md, then run python -m tests.engine.examples"


def test_every_public_name_has_a_docstring():
    assert not [name for name in public_names() if not docstring(name)]


SHAPES = re.compile(r"\[[A-Z.0-9…*][^\]]*\]|\b[Ss]hapes?\b|\bax[ei]s\b|\bextents?\b")
DTYPES = re.compile(r"dtype|float|integer|whole|number|bool|complex|\bu?int\d")
OF_NO_ARRAYS = {"engine.__array_namespace_info__", "engine.custom", "engine.host_call", "engine.isdtype"}
NEVER_FAIL = {"engine.barrier", "engine.stop_gradient"}


def test_functions_say_shapes_dtypes_and_errors():
    lacking = []
    for name in public_names():
        module, _, last = name.rpartition(".")
        is_function = last in functions.__all__ or module in ("engine.linalg", "engine.fft", "functional")
        text = docstring(name)
        if not is_function or name in OF_NO_ARRAYS:
            continue
        lacks = [what for what, words in (("shapes", SHAPES), ("dtypes", DTYPES)) if not words.search(text)]
        lacks += ["errors"] * ("Raises:\n" not in text and name not in NEVER_FAIL)
        lacking += [f"{name}: {', '.join(lacks)}"] * bool(lacks)
    assert not lacking, "add what the docstrings lack: a sentence on shapes and dtypes, a section `Raises:`"


def test_layers_say_the_shapes_that_they_take():
    layers = [name for name in public_names() if name.startswith("nn.") and is_layer(getattr(nn, name[3:]))]
    assert "nn.Conv2d" in layers
    assert not [name for name in layers if not SHAPES.search(docstring(name))], "say shapes in the docstrings"


def is_layer(value):
    return isinstance(value, type) and issubclass(value, nn.Module) and value not in HOLDERS


HOLDERS = (nn.Module, nn.ModuleList, nn.Sequential)


def test_what_counts_as_public_is_what_the_engine_hands_out():
    modules = {module.__name__.rpartition(".")[2] for module in MODULES}
    assert set(functions.__all__) <= modules | {name.removeprefix("engine.") for name in public_names()}


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_the_page_says(page):
    with engine.device("reference"):
        assert not failures(page)


@pytest.mark.full
@pytest.mark.parametrize("page", PAGES)
def test_examples_run_on_the_cpu_device(page):
    assert not failures(page)
