"""Finds the code that a benchmark's figures depend on, and the recorded figures that are current.

    python benchmarks/dependencies.py [BENCHMARK ...]

Prints a line per benchmark: how many of its recorded figures are current, and the modules that made the others stale.
A figure depends on the benchmark's modules, on the workloads that it imports or names, on every room (subpackage) that
those import or name, on the rooms that these import, and on the recipes that are named. Comments, docstrings and
formatting make nothing stale, nor does code for GPUs, which no recorded figure runs.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import provenance
from harness import ROOT

BENCHMARKS = ROOT / "benchmarks"
PACKAGE = provenance.PACKAGE
WORKLOADS = BENCHMARKS / "workloads"
RECORDING = ("recording.py", "provenance.py")
"""The modules that record figures for the harness."""
RECIPES = frozenset(file.parent.name for file in PACKAGE.glob("recipes/*/task.py"))
GPU = tuple(PACKAGE / "engine" / "targets" / name for name in ("cuda", "ptx"))


def main() -> int:
    """Runs the command; returns 1 if a figure is stale or a benchmark has none."""
    import recording

    parser = argparse.ArgumentParser(
        description="List the recorded figures that are current, and why the others are stale.",
        epilog="Example: python benchmarks/dependencies.py unseen cpu",
    )
    known = [file.stem for file in sorted(BENCHMARKS.glob("*.py"))
             if re.search(r"^from harness import .*\brun_figures\b", file.read_text(), re.MULTILINE)]  # fmt: skip
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help=f"default: {', '.join(known)}")
    is_current, newest = True, recording.newest()
    for benchmark in parser.parse_args().benchmarks or known:
        lines = newest.get(benchmark, {})
        stale = [changes for line in lines.values() if (changes := changed(benchmark, line["revision"]))]
        why = {module for changes in stale for module in changes}
        names = ", ".join(sorted(why)[:6]) + ", …" * (len(why) > 6)
        print(f"{benchmark}: {len(lines) - len(stale)} of {len(lines)} recorded figures are current"
              + (f"; changed since: {names}" if stale else ""))  # fmt: skip
        is_current &= bool(lines) and not stale
    return 0 if is_current else 1


def changed(benchmark: str, revision: str) -> list[str]:
    """Returns the modules of a benchmark whose statements differ from those of a commit, or "the commit" if the
    checkout doesn't have it.
    """
    if (differing := _changed_since(revision)) is None:
        return ["the commit"]
    return [str(file.relative_to(ROOT)) for file in sorted(differing & modules(benchmark))]


@functools.cache
def modules(benchmark: str) -> frozenset[Path]:
    """The modules that a benchmark's figures depend on."""
    found, waiting, rooms = set[Path](), [BENCHMARKS / f"{benchmark}.py"], set[str]()
    while waiting:
        if (file := waiting.pop()) in found:
            continue
        found.add(file)
        for name in _names(file):
            if name.startswith("trainer.recipes."):
                found |= provenance.recipe_files(PACKAGE / "recipes" / name.split(".")[2])
            elif name.startswith("trainer"):
                rooms.update(name.split(".")[1:2])
            elif name in RECIPES and file.stem != "harness":  # its `names` are figures
                found |= provenance.recipe_files(PACKAGE / "recipes" / name)
            elif name not in RECORDING:
                places = (BENCHMARKS / name, WORKLOADS / f"{name.removesuffix('.py')}.py")
                waiting += [place for place in places if place.is_file()]
    rooms = rooms or {file.name for file in PACKAGE.iterdir() if (file / "__init__.py").is_file()}
    reached = set[str]()
    while rooms:
        reached.add(room := rooms.pop())
        rooms |= _rooms_of(room) - reached
    files = (file for room in reached - {"recipes"} for file in _files_of(room))
    return frozenset(found) | {file for file in files if not any(file.is_relative_to(folder) for folder in GPU)}


@functools.cache
def _rooms_of(room: str) -> frozenset[str]:
    names = (name.split(".") for file in _files_of(room) for name in _names(file) if name.startswith("trainer."))
    return frozenset(part for _, part, *_ in names)


def _files_of(room: str) -> list[Path]:
    return [*(PACKAGE / room).rglob("*.py")] or [PACKAGE / f"{room}.py"] * (PACKAGE / f"{room}.py").is_file()


def _names(file: Path) -> Iterator[str]:
    """Yields the modules that a module imports (`trainer.engine`, `harness.py`), and strings that may name one."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (_name(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(file.parents[node.level - 1].relative_to(ROOT).parts) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield _name(module)
            yield from (f"{module}.{alias.name}" for alias in node.names if module == "trainer")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+", node.value):
            yield node.value


def _name(module: str) -> str:
    return module if module.partition(".")[0] == "trainer" else f"{module}.py"


@functools.cache
def _changed_since(revision: str) -> frozenset[Path] | None:
    """Returns the modules whose statements differ from a commit's; None if the checkout doesn't have the commit."""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(("git", "-C", str(ROOT), *words), capture_output=True, text=True, check=False)

    found = git("diff", "--name-only", "--no-renames", revision, "--", "trainer", "benchmarks")
    if found.returncode:
        return None
    names = [name for name in found.stdout.splitlines() if name.endswith(".py")]
    return frozenset(
        ROOT / name
        for name in names
        if not (ROOT / name).is_file()
        or provenance.statements(git("show", f"{revision}:{name}").stdout)
        != provenance.statements((ROOT / name).read_text(encoding="utf-8"))
    )


if __name__ == "__main__":
    raise SystemExit(main())
