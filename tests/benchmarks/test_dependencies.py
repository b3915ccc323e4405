"""Which code a recorded figure is of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import dependencies

PACKAGE = dependencies.PACKAGE


def test_a_benchmark_depends_on_what_it_imports_and_names() -> None:
    found = dependencies.modules("sequences")
    assert {dependencies.WORKLOADS / "attention.py", dependencies.BENCHMARKS / "harness.py"} <= found
    assert PACKAGE / "engine" / "graph" / "dtypes.py" in found
    assert not any(file.is_relative_to(PACKAGE / room) for file in found for room in ("tui", "cli", "recipes"))
    assert not any(file.is_relative_to(folder) for file in found for folder in dependencies.GPU)


def test_a_benchmark_of_a_command_depends_on_the_rooms_that_it_imports() -> None:
    found = dependencies.modules("digits")
    assert {PACKAGE / "tui" / "app.py", PACKAGE / "recipes" / "digits" / "task.py"} <= found
    assert PACKAGE / "recipes" / "names" / "task.py" not in found


def test_a_benchmark_depends_on_the_parts_of_recipes_that_it_imports() -> None:
    assert PACKAGE / "recipes" / "parts" / "resnet.py" in dependencies.modules("metrics")


def test_a_benchmark_that_names_no_room_depends_on_all() -> None:
    assert {PACKAGE / "tui" / "app.py", PACKAGE / "engine" / "__init__.py"} <= dependencies.modules("size")


def test_statements_make_figures_stale_and_comments_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        command = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path), *words)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    files = {name: tmp_path / "trainer" / f"{name}.py" for name in ("comment", "statement", "gone", "same")}
    (tmp_path / "trainer").mkdir()
    for file in files.values():
        file.write_text("x = 1\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    revision = git("rev-parse", "--short", "HEAD")
    files["comment"].write_text("x = 1  # a reason\n")
    files["statement"].write_text("x = 2\n")
    files["gone"].unlink()
    monkeypatch.setattr(dependencies, "ROOT", tmp_path)
    monkeypatch.setattr(dependencies, "modules", lambda _: frozenset(files.values()))
    dependencies._changed_since.cache_clear()
    assert dependencies.changed("x", revision) == ["trainer/gone.py", "trainer/statement.py"]
    assert dependencies.changed("x", "0000000") == ["the commit"]
    dependencies._changed_since.cache_clear()
