"""The floors of the house: a room imports only from floors below it, and some names nowhere.

The imports are read from the source, those inside functions included.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
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

# Narrower than the floors: all that a room may import of the package; and names that it may not import at all.
ONLY: dict[str, set[str]] = {"tui": {"rundir", "configs"}, "engine": set(), "configs": set(), "rundir": set()}
NEVER = {"configs": {"numpy", "llvmlite", "textual"}, "rundir": {"numpy", "llvmlite", "textual"}}
NOWHERE = {"torch", "torchvision", "tensorflow", "keras", "jax", "flax"}
STANDARD_LIBRARY_ONLY = {"rundir"}


def files_of(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py"))


def imports_of(file: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, by its full name, with the line."""
    package = [PACKAGE.name, *file.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            if module == PACKAGE.name:  # `from trainer import engine` imports a room, `TrainerError` doesn't
                yield from ((f"{module}.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield module, node.lineno


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


@pytest.mark.parametrize("room", FLOORS)
def test_a_room_imports_only_from_floors_below(room):
    assert violations(room) == []


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
