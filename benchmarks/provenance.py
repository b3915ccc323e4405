"""Provenance of a recipe's results: digests of its programs, code, configuration and data; the machine; versions.

python benchmarks/provenance.py digits clothes        prints it, one JSON object per recipe
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import llvmlite.binding
from harness import ROOT, as_json, checkout_environment

from trainer.configs import Span, load
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.machine import AVX512, host_machine
from trainer.engine.targets.cpu.topology import available_threads
from trainer.learner import Plan

PACKAGE = ROOT / "trainer"
LEARNER = ("configs", "datasets", "learner", "metrics")
"""Subpackages whose code determines the results of every recipe."""
RUNTIME = PACKAGE / "engine" / "targets" / "cpu"
"""Modules that run lowered programs; the effect of code in its subfolders shows in the programs' text."""
DISTRIBUTIONS = ("llvmlite", "numpy", "pillow", "pycocotools")
"""Other distributions that compute results."""
SHOWN_BY_FINGERPRINT = frozenset({"program", "runtime", "learner", "recipe", "versions"})
"""Dependencies that a fingerprint run covers fully. It uses a tenth of the data, and its own number of epochs."""
FINGERPRINT = Path(__file__).parent / "workloads" / "fingerprint.py"
LOWERED = Path(__file__).parent / "lowered.py"
LOWERINGS = {"0dde062f922c": {**asdict(AVX512), "level1_ways": 8, "bfloat16": True, "int8": True}}
"""Machine that programs were lowered for (Zen 4), by digest of the processor's features, for older lines without it."""
CORES = {"0dde062f922c": "znver4"}
"""LLVM's name of the processor's cores, by digest of the processor's features, for older lines without it."""


def digests(recipe: str) -> dict[str, str]:
    """Returns the digest of each dependency of a recipe's results, on this machine."""
    folder, root = PACKAGE / "recipes" / recipe, load(recipe).config.data.root
    places = [place for place in (root, folder / "data") if place is not None]
    files = {path.resolve() for place in places for path in place.rglob("*") if path.is_file()}
    data = sorted(file for file in files if not file.name.startswith(("README", "LICENSE")))
    return {
        "program": program(recipe, as_json(asdict(host_machine()))),
        "runtime": code_digest(RUNTIME.glob("*.py")),
        "learner": code_digest(file for room in LEARNER for file in (PACKAGE / room).rglob("*.py")),
        "recipe": code_digest(recipe_files(folder)),
        "configuration": configuration(recipe),
        "data": _digest(part for path in data
                        for part in (str(path.relative_to(PACKAGE)).encode(), path.read_bytes())),
    }  # fmt: skip


@functools.cache
def program(recipe: str, lowering: str) -> str:
    """Returns the digest of a recipe's programs for a machine, given as JSON. A new process lowers them, since earlier
    lowering in a process decides which of several equal programs a recipe gets.

    Raises:
        subprocess.CalledProcessError: lowering failed.
    """
    command = (sys.executable, str(LOWERED), recipe, lowering)
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=checkout_environment(), check=True)
    return found.stdout.strip()[:12]


def lowering_of(line: Mapping[str, Any]) -> str:
    """Returns the machine that the programs of a line of results were lowered for, as JSON."""
    machine = line["machine"]
    return as_json(machine.get("lowering") or LOWERINGS.get(machine.get("features")) or {})


@functools.cache
def configuration(recipe: str) -> str:
    """Returns the digest of a recipe's config.yaml and options, without the seed.

    A warm-up given as a fraction of the run is converted to steps of a run on the recipe's own data.
    """
    loaded = load(recipe)
    said = loaded.config.model_dump(mode="json", exclude_unset=True, exclude={"seed"})
    if said.get("schedule", {}).pop("warmup_fraction", None) is not None:
        said["schedule"]["warmup_steps"] = loaded.config.schedule.warmup(span(recipe))
    said["options"] = loaded.options.model_dump(mode="json")
    text = json.dumps(said, sort_keys=True).replace(str(ROOT), "")  # files are the same in every checkout
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def span(recipe: str) -> Span:
    """The length of a recipe's run on its own data."""
    loaded = load(recipe, ["data.workers=0"])
    splits = getattr(loaded.task.import_module(), loaded.task.class_name)(loaded.config, loaded.options).data()
    plan = Plan.for_config(loaded.config.train, splits)
    return Span(plan.total_steps, plan.steps_per_epoch)


def recipe_files(folder: Path) -> set[Path]:
    """Returns the modules of a recipe and all gallery modules that they import, directly or indirectly."""
    found, waiting = set[Path](), list(folder.glob("*.py"))
    while waiting:
        if (file := waiting.pop()) in found:
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                base = file.parents[node.level - 1] if node.level else ROOT
                module = base.joinpath(*node.module.split(".")).with_suffix(".py")
                if module.is_file() and module.is_relative_to(PACKAGE / "recipes"):
                    waiting.append(module)
    return found


def code_digest(files: Iterable[Path]) -> str:
    """Returns the digest of the statements of modules, which ignores comments, docstrings and formatting."""
    return _digest(part for file in sorted(files) for part in (
        str(file.relative_to(PACKAGE)).encode(), statements(file.read_text(encoding="utf-8")).encode()))  # fmt: skip


def statements(text: str) -> str:
    """Returns the statements of a module's text, without comments, docstrings and formatting."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body  # type: ignore[attr-defined]
                         if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]  # fmt: skip
    return ast.dump(tree)


def _digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()[:12]


def versions() -> dict[str, str]:
    """Versions of Python and of the distributions that compute results."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in DISTRIBUTIONS}}


def machine() -> dict[str, Any]:
    """Properties that determine speed: the processor's model and LLVM's name of its cores, the number of available
    threads, the memory in GB.
    """
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _model(),
        "core": llvmlite.binding.get_host_cpu_name(),
        "features": hashlib.sha256(repr(sorted(native.host_features().items())).encode()).hexdigest()[:12],
        "lowering": asdict(host_machine()),
        "threads": available_threads(),
        "memory": round(pages / 1e9),
        "system": platform.system(),
    }


def _model() -> str:
    """The processor's name in the operating system."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text(encoding="utf-8").splitlines() if described.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def revision() -> str:
    """Returns the newest commit that changed the package or the benchmarks, followed by + if a file was changed or
    added since. Commits that only add results don't count: a rebase of them may lose the names that they recorded.
    """
    code = ("--", "trainer", "benchmarks/*.py")
    git = ("git", "-C", str(ROOT))
    newest = (*git, "log", "-1", "--format=%h", *code)
    commit = subprocess.run(newest, capture_output=True, text=True, check=True).stdout
    changes = (*git, "status", "--porcelain", "--untracked-files=all", *code)
    is_changed = subprocess.run(changes, capture_output=True, text=True, check=True).stdout
    return commit.strip() + ("+" if is_changed else "")


def origin(recipe: str) -> dict[str, Any]:
    """Returns the provenance of a line of results. Call it before training, since files may change during it."""
    return {
        "recipe": recipe,
        "revision": revision(),
        "digests": digests(recipe),
        "versions": versions(),
        "machine": machine(),
    }


def now(recipe: str, lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the origin of a line recorded now, and the digests of today's programs for the machines of `lines`."""
    machines = {lowering_of(line) for line in lines if "digests" in line} - {"{}"}
    return {**origin(recipe), "programs": {machine: program(recipe, machine) for machine in machines}}


def fingerprint(recipe: str, checkout: Path = ROOT) -> str:
    """Returns the digest of the results of a short training in a separate process.

    Raises:
        subprocess.CalledProcessError: the training failed.
    """
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as cache:
        environment = {**checkout_environment(TRAINER_CACHE_DIR=cache), "PYTHONPATH": str(checkout)}
        command = (sys.executable, "-P", str(checkout / FINGERPRINT.relative_to(ROOT)), recipe)
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout.strip()


def same_as(recipe: str, checkout: Path) -> dict[str, str]:
    """Returns the fingerprint of this checkout and, as `same_as`, the configuration of an earlier one with equal bits.

    It shows that a reworded configuration is equivalent. Values that a fingerprint run overrides, such as epochs, must
    be equal in both.

    Raises:
        ValueError: the bits differ.
        subprocess.CalledProcessError: a run failed.
    """
    code = f"import provenance; print(provenance.configuration({recipe!r}))"
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{checkout / 'benchmarks'}"}
    found = subprocess.run((sys.executable, "-P", "-c", code), stdout=subprocess.PIPE, text=True, env=environment,
                           check=True)  # fmt: skip
    here, there = fingerprint(recipe), fingerprint(recipe, checkout)
    if here != there:
        raise ValueError(f"{recipe}: fingerprint {here}, that of {checkout} is {there}")
    return {"fingerprint": here, "same_as": found.stdout.strip()}


def differences(line: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the dependencies of a line that have changed since it was measured, on the machine that measured it."""
    if "digests" not in line:
        return ["no digests"]
    program = now.get("programs", {}).get(lowering_of(line), now["digests"]["program"])
    current = {**now["digests"], "program": program}
    found = [name for name, value in current.items() if line["digests"].get(name) != value]
    return found + [name for name in ("versions",) if line[name] != now[name]]


def quality_differences(
    line: Mapping[str, Any], now: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Returns the changed dependencies that make a line's metrics stale. There are none if nothing changed, or if a
    fingerprint run of the current checkout, among `lines`, had the same bits as the line's own.
    """
    different = differences(line, now)
    if set(different) <= SHOWN_BY_FINGERPRINT and "fingerprint" in line:
        present = {each["fingerprint"] for each in lines if "fingerprint" in each and not differences(each, now)}
        if line["fingerprint"] in present:
            return []
    return different


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(as_json(origin(name)))
