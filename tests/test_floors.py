"""The floors of the house: a room imports only from floors below it, and some names nowhere.

The engine has floors of its own; it and the learner have no import cycles. The imports are read from the source, those
inside functions and those for type checking included.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "trainer"

FLOORS = {
    "engine": 0, "configs": 0, "rundir": 0,
    "metrics": 1, "datasets": 1,
    "learner": 2,
    "tui": 3,
    "cli": 4, "recipes": 4,
}  # fmt: skip

# Inside the engine: folders and files, each importing only from lower floors. A package's `__init__` hands on names of
# modules inside it, so it is above them: nothing inside the engine imports `trainer.engine` itself. Of
# `tracing`, what says what is being traced now, and nested values as lists, are below the rest of the folder.
ENGINE_FLOORS = {
    "graph": 0,                                                                     # nodes, primitives, derivatives
    "program": 1,                                                                   # graph -> items of work, memory
    "targets": 2,                                                                   # devices: kernels and running
    "collection": 3, "history": 3, "promotion": 3, "safetensors": 3, "tracing/__init__": 3,
    "tracing/pytree": 3,
    "evaluation": 4, "sharding": 4,
    "tensor": 5,
    "autocast": 6, "gradients": 6, "state": 6,
    "functions": 7,
    "random": 8,
    "nn": 9, "tracing": 9,                                                          # layers; the tracer
    "autotune": 10, "checking": 10, "export": 10, "profiling": 10,                  # what looks at compiled steps
    "__init__": 11,
}  # fmt: skip

# Narrower than the floors: all that a room may import of the package; and names that it may not import at all.
ONLY: dict[str, set[str]] = {"tui": {"rundir", "configs"}, "engine": set(), "configs": set(), "rundir": set()}
NEVER = {"configs": {"numpy", "llvmlite", "textual"}, "rundir": {"numpy", "llvmlite", "textual"}}
NOWHERE = {"torch", "torchvision", "tensorflow", "keras", "jax", "flax"}
STANDARD_LIBRARY_ONLY = {"rundir"}
RUN_BY = {"ptx": "cuda"}
"""Targets whose kernels another folder's device runs."""

WITHOUT_CYCLES = ("engine", "learner")


def files_of(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py"))


@functools.cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def imports_of(file: Path) -> Sequence[tuple[str, int]]:
    """The full name of every module that a file imports, or of what it takes from one, with the line."""
    package = [PACKAGE.name, *file.relative_to(PACKAGE).parts[:-1]]
    found: list[tuple[str, int]] = []
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            found += [(f"{module}.{alias.name}", node.lineno) for alias in node.names]
    return found


def rooms_of(file: Path) -> Iterator[tuple[str, int]]:
    for module, line in imports_of(file):
        parts = module.split(".")
        if parts[0] == PACKAGE.name and len(parts) > 1 and parts[1] in FLOORS:
            yield parts[1], line


def violations(room: str) -> list[str]:
    found = []
    for file in files_of(room):
        for other, line in rooms_of(file):
            is_below = FLOORS[other] < FLOORS[room] and other in ONLY.get(room, FLOORS)
            if other != room and not is_below:
                found.append(f"{file.relative_to(PACKAGE.parent)}:{line} imports trainer.{other}")
    return found


def module_of(name: str, room: str) -> str | None:
    """The path inside a room, without its suffix, of the module that a full name is in; None outside."""
    place = PACKAGE.parent.joinpath(*name.split("."))
    while (PACKAGE / room) in (place, *place.parents):
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.exists():
                return file.relative_to(PACKAGE / room).with_suffix("").as_posix()
        place = place.parent
    return None


def imports_within(room: str) -> dict[str, dict[str, int]]:
    """For each module of a room those of the room that it imports, with the line."""
    found: dict[str, dict[str, int]] = {}
    for file in files_of(room):
        modules = ((module_of(name, room), line) for name, line in imports_of(file))
        own = file.relative_to(PACKAGE / room).with_suffix("").as_posix()
        found[own] = {module: line for module, line in modules if module is not None}
    return found


def engine_room(module: str) -> str:
    """The entry of `ENGINE_FLOORS` that a module of the engine belongs to."""
    return module if module in ENGINE_FLOORS else module.split("/")[0]


def engine_violations() -> list[str]:
    found = []
    for module, imported in imports_within("engine").items():
        own = engine_room(module)
        for other, line in imported.items():
            room = engine_room(other)
            if room != own and ENGINE_FLOORS[room] >= ENGINE_FLOORS[own]:
                found.append(f"{module}.py:{line} imports {other}")
    return found


def targets_that_import_each_other() -> list[str]:
    """Imports of one target's folder in another one's; what they share is in `targets/ir` and in files beside it."""
    found = []
    for module, imported in imports_within("engine").items():
        own = module.split("/")
        for other, line in imported.items():
            place = other.split("/")
            is_of_target = own[0] == place[0] == "targets" and len(own) > 2 and len(place) > 2 and place[1] != "ir"
            if is_of_target and own[1] not in (place[1], RUN_BY.get(place[1])):
                found.append(f"{module}.py:{line} imports {other}")
    return found


def classes_of_one_name() -> list[str]:
    """Public classes of the engine that share a folder and a name."""
    names = Counter(
        f"{file.parent.relative_to(PACKAGE).as_posix()}: {node.name}"
        for file in files_of("engine")
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return [name for name, count in names.items() if count > 1]


@pytest.mark.parametrize("room", FLOORS)
def test_a_room_imports_only_from_floors_below(room):
    assert violations(room) == []


def test_a_room_of_the_engine_imports_only_from_floors_below():
    assert engine_violations() == []


def test_targets_do_not_import_each_other():
    assert targets_that_import_each_other() == []


@pytest.mark.parametrize("room", WITHOUT_CYCLES)
def test_a_room_has_no_import_cycle(room):
    graphlib.TopologicalSorter(imports_within(room)).prepare()  # the error names the modules of a cycle


def test_no_two_classes_of_one_folder_of_the_engine_have_one_name():
    assert classes_of_one_name() == []


@pytest.mark.parametrize("room", NEVER)
def test_light_rooms_import_nothing_heavy(room):
    bad = [f"{file.name}:{line} {module}" for file in files_of(room) for module, line in imports_of(file)
           if module.split(".")[0] in NEVER[room]]  # fmt: skip
    assert bad == []


@pytest.mark.parametrize("room", STANDARD_LIBRARY_ONLY)
def test_the_run_directory_needs_the_standard_library_only(room):
    allowed = {*sys.stdlib_module_names, PACKAGE.name}
    bad = [f"{file.name}:{line} {module}" for file in files_of(room) for module, line in imports_of(file)
           if module.split(".")[0] not in allowed]  # fmt: skip
    assert bad == []


def test_no_other_framework_is_imported_anywhere():
    bad = [f"{file.relative_to(PACKAGE)}:{line} {module}"
           for file in PACKAGE.rglob("*.py") for module, line in imports_of(file)
           if module.split(".")[0] in NOWHERE]  # fmt: skip
    assert bad == []


@pytest.mark.parametrize("module", ["trainer", "trainer.configs", "trainer.rundir"])
def test_light_modules_load_nothing_heavy(module):
    """The same by running: what they import may import something in turn."""
    heavy = {"numpy", "llvmlite", "textual", "PIL", "pycocotools", "trainer.engine", *NOWHERE}
    code = f"import sys, {module}; print(sorted(set(sys.modules) & {heavy!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert done.stdout.strip() == "[]"


def test_importing_the_package_loads_no_room():
    code = "import sys, trainer; print([name for name in sys.modules if name.startswith('trainer.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert done.stdout.strip() == "[]"


def test_the_walk_sees_every_way_to_import(tmp_path, monkeypatch):
    """The test of the test: absolute, relative, inside a function, and of the package itself."""
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path / "trainer")
    room = tmp_path / "trainer" / "metrics"
    room.mkdir(parents=True)
    (room / "sample.py").write_text(
        "import trainer.learner\nfrom trainer import tui, TrainerError\nfrom ..cli import main\n"
        "def f():\n    from trainer.recipes.digits import task\n"
        "from . import other\nfrom trainer.engine import Tensor\n"
    )
    assert [line.split(":")[1] for line in violations("metrics")] == [
        "1 imports trainer.learner", "2 imports trainer.tui", "3 imports trainer.cli", "5 imports trainer.recipes",
    ]  # fmt: skip


def test_the_walk_sees_floors_and_cycles_inside_the_engine(tmp_path, monkeypatch):
    """The test of the test: above, beside, the engine itself, inside a function, and for type checking."""
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path / "trainer")
    sources = {
        "__init__": "from trainer.engine.nn.linear import Linear\n",
        "tensor": "from trainer.engine.graph.node import Node\nclass Tensor: ...\n",
        "graph/node": "def f():\n    from trainer.engine.tensor import Tensor\n",
        "graph/storage": "from trainer.engine.graph import node\nclass Storage: ...\n",
        "graph/layout": "class Storage: ...\nclass _Private: ...\n",
        "nn/linear": "from trainer import TrainerError, engine\nfrom trainer.engine import Tensor\n",
        "autotune/tuner": "if TYPE_CHECKING:\n    from ..export import save\n",
        "export/save": "import trainer.engine.nn.linear\n",
    }
    for path, source in sources.items():
        file = tmp_path / "trainer" / "engine" / f"{path}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    assert sorted(engine_violations()) == [
        "autotune/tuner.py:2 imports export/save",
        "graph/node.py:2 imports tensor",
        "nn/linear.py:2 imports __init__",
    ]
    with pytest.raises(graphlib.CycleError, match="in a cycle"):
        graphlib.TopologicalSorter(imports_within("engine")).prepare()
    assert classes_of_one_name() == ["engine/graph: Storage"]
