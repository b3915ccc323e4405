"""What a recipe's results depend on: digests of its programs, code, configuration and data, the machine, and versions.

python benchmarks/provenance.py digits clothes        prints them, a JSON object a recipe
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

from harness import ROOT, as_json, checkout_environment

from trainer.configs import Span, load
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.machine import AVX512, host_machine
from trainer.engine.targets.cpu.topology import available_threads
from trainer.learner import Plan

PACKAGE = ROOT / "trainer"
LEARNER = ("configs", "datasets", "learner", "metrics")
"""The rooms whose code decides the numbers of every recipe."""
RUNTIME = PACKAGE / "engine" / "targets" / "cpu"
"""The modules that run what was lowered; what lies in folders below shows in the programs' text."""
DISTRIBUTIONS = ("llvmlite", "numpy", "pillow", "pycocotools")
"""What else computes results."""
SHOWN_BY_FINGERPRINT = frozenset({"program", "runtime", "learner", "recipe", "versions"})
"""What a fingerprint run takes part in wholly. Of the data it sees a tenth, and it has epochs of its own."""
FINGERPRINT = Path(__file__).parent / "workloads" / "fingerprint.py"
LOWERED = Path(__file__).parent / "lowered.py"
LOWERINGS = {"0dde062f922c": {**asdict(AVX512), "level1_ways": 8, "bfloat16": True, "int8": True}}
"""What programs were lowered for by the digest of a processor's features, where older lines name nothing else: Zen 4.
"""


def digests(recipe: str) -> dict[str, str]:
    """The digest of each thing that a recipe's results depend on, on this machine."""
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
    """The digest of a recipe's programs for a machine, its fields as JSON. From a process of its own: what a process
    has lowered before decides which of several equal programs a recipe gets.

    Raises:
        subprocess.CalledProcessError: they can't be lowered.
    """
    command = (sys.executable, str(LOWERED), recipe, lowering)
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=checkout_environment(), check=True)
    return found.stdout.strip()[:12]


def lowering_of(line: Mapping[str, Any]) -> str:
    """What the programs of a line of results were lowered for, as JSON."""
    machine = line["machine"]
    return as_json(machine.get("lowering") or LOWERINGS.get(machine.get("features")) or {})


@functools.cache
def configuration(recipe: str) -> str:
    """The digest of what a recipe's config.yaml and options say, but for the seed.

    A warm-up that is a fraction of the run counts as the steps that it is of the recipe's own data.
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
    """The modules of a recipe, and those of the gallery that they import, and so on."""
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
    """The digest of what modules do: comments, docstrings and formatting change nothing."""
    return _digest(part for file in sorted(files) for part in (
        str(file.relative_to(PACKAGE)).encode(), statements(file.read_text(encoding="utf-8")).encode()))  # fmt: skip


def statements(text: str) -> str:
    """What a module's text does, without comments, docstrings and formatting."""
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
    """Python and the distributions that compute results."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in DISTRIBUTIONS}}


def machine() -> dict[str, Any]:
    """What decides seconds: the processor's model, how many threads it may use, and its memory in GB."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _model(),
        "features": hashlib.sha256(repr(sorted(native.host_features().items())).encode()).hexdigest()[:12],
        "lowering": asdict(host_machine()),
        "threads": available_threads(),
        "memory": round(pages / 1e9),
        "system": platform.system(),
    }


def _model() -> str:
    """The processor as the system calls it."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text(encoding="utf-8").splitlines() if described.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def revision() -> str:
    """The commit of the checkout, with a + where files differ from it or are not in it."""
    git = ("git", "-C", str(ROOT))
    commit = subprocess.run((*git, "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=True).stdout
    changes = (*git, "status", "--porcelain", "--untracked-files=all", "--", "trainer", "benchmarks/*.py")
    is_changed = subprocess.run(changes, capture_output=True, text=True, check=True).stdout
    return commit.strip() + ("+" if is_changed else "")


def origin(recipe: str) -> dict[str, Any]:
    """What a line of results is of. Taken before a training: files may change while it lasts."""
    return {
        "recipe": recipe,
        "revision": revision(),
        "digests": digests(recipe),
        "versions": versions(),
        "machine": machine(),
    }


def now(recipe: str, lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The origin that a line would have, with the digests of the programs that the machines of `lines` would have."""
    machines = {lowering_of(line) for line in lines if "digests" in line} - {"{}"}
    return {**origin(recipe), "programs": {machine: program(recipe, machine) for machine in machines}}


def fingerprint(recipe: str, checkout: Path = ROOT) -> str:
    """The digest of what a short training computes, in a process of its own.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as cache:
        environment = {**checkout_environment(TRAINER_CACHE_DIR=cache), "PYTHONPATH": str(checkout)}
        command = (sys.executable, "-P", str(checkout / FINGERPRINT.relative_to(ROOT)), recipe)
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout.strip()


def same_as(recipe: str, checkout: Path) -> dict[str, str]:
    """The fingerprint of this checkout and, as `same_as`, the configuration of an earlier one with the same bits.

    For a configuration that says the same in other words. Numbers that a fingerprint run sets itself, such as epochs,
    must be equal in both.

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
    """What a line's numbers and its seconds depended on that is another now, on the machine that it was measured on."""
    if "digests" not in line:
        return ["no digests"]
    program = now.get("programs", {}).get(lowering_of(line), now["digests"]["program"])
    current = {**now["digests"], "program": program}
    found = [name for name, value in current.items() if line["digests"].get(name) != value]
    return found + [name for name in ("versions",) if line[name] != now[name]]


def quality_differences(
    line: Mapping[str, Any], now: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Why a line's metrics no longer count: nothing where all is the same, or where a fingerprint run of what is there
    now, among `lines`, had the same bits as one of what the line measured.
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
