"""The examinations of `trainer doctor`: a table; each entry adds facts and problems."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import trainer
from trainer.cli.environment import cpu_features, cpu_name, package_versions
from trainer.cli.system import gpu_names

if TYPE_CHECKING:
    from trainer.engine.targets.cpu.topology import Topology

TELLING_FEATURES = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "amx_int8", "asimd", "sve")
"""Processor features that decide which kernels are used."""


@dataclass
class Findings:
    """Facts by name, and problems as text."""

    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def examine() -> Findings:
    """Runs all EXAMINATIONS."""
    findings = Findings()
    for examination in EXAMINATIONS:
        examination(findings)
    return findings


def name_clashes(providers: Mapping[str, Sequence[str]]) -> list[str]:
    """Other distributions that provide the import name `trainer`; `providers` maps import names to distributions."""
    others = sorted(set(providers.get("trainer", ())) - {DISTRIBUTION})
    return others


DISTRIBUTION = "lucid-trainer"


def _versions(findings: Findings) -> None:
    findings.facts["trainer"] = f"{trainer.__version__} in {Path(trainer.__file__).parent}"
    findings.facts["python"] = f"{platform.python_version()} ({sys.executable})"
    findings.facts["system"] = platform.platform()
    for name, version in package_versions().items():
        findings.facts[name] = version or "missing"
        if version is None:
            findings.problems.append(f"{name} is not installed: pip install {name}")


def _names(findings: Findings) -> None:
    from importlib.metadata import packages_distributions

    for other in name_clashes(packages_distributions()):
        findings.problems.append(
            f"the distribution {other!r} also installs a package named trainer; the two overwrite each other: pip "
            f"uninstall {other}, then pip install --force-reinstall {DISTRIBUTION}"
        )


def _processor(findings: Findings) -> None:
    from trainer.engine.targets.cpu.topology import Topology

    features = set(cpu_features())
    findings.facts["cpu"] = cpu_name()
    findings.facts["cpu features"] = " ".join(name for name in TELLING_FEATURES if name in features) or "not listed"
    if "amx_bf16" in features:
        findings.facts["bfloat16"] = (
            "`numerics: {bfloat16: tiles}` is faster here: it multiplies with AMX, and rounds differently"
        )
    topology = Topology.read()
    findings.facts["cores"] = described(topology, os.cpu_count() or 1)
    findings.facts["threads"] = f"{topology.threads} by default"


def described(topology: Topology, installed: int) -> str:
    """The usable processors, and the number of installed ones, as one line."""
    cores, processors = len(topology.cores), sum(map(len, topology.cores))
    slower = sum(not topology.slower.isdisjoint(core) for core in topology.cores)
    parts = [f"{cores} physical" + (f" ({slower} slower)" if slower else "")]
    parts.append(f"{processors} of {installed} logical processors" + (" (affinity)" if processors < installed else ""))
    parts += [
        f"level-{level} cache shared by {' and '.join(map(str, sorted({len(group) for group in groups})))}"
        for level, groups in topology.caches.items()
        if any(len(group) > 1 for group in groups)
    ]
    if len(topology.nodes) > 1:
        parts.append(f"{len(topology.nodes)} memory nodes (NUMA)")
    if topology.quota is not None:
        parts.append(f"a quota of {topology.quota:g} (control group)")
    return ", ".join(parts)


def _gpus(findings: Findings) -> None:
    from trainer.engine.targets.cuda import driver

    findings.facts["gpus"] = "; ".join(gpu_names()) or "none found"
    findings.facts["device cuda"] = driver.summary()


def _caches(findings: Findings) -> None:
    from trainer.engine.targets.disk_cache import cache_directory, unsafe_folder

    folder = cache_directory()
    files = [entry for entry in folder.rglob("*") if entry.is_file()] if folder.is_dir() else []
    size = sum(entry.stat().st_size for entry in files)
    findings.facts["kernel cache"] = f"{folder}: {len(files)} files, {size / 1e6:.1f} MB"
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        findings.problems.append(
            f"the kernel cache is not writable ({existing}): every run compiles its kernels again; set "
            "TRAINER_CACHE_DIR to a folder that you can write to"
        )
    elif hasattr(os, "getuid") and (unsafe := unsafe_folder(existing.absolute())) is not None:
        findings.problems.append(
            f"the kernel cache is not used, because other users can write to {unsafe} or own it: every run compiles "
            f"its kernels again; run chmod go-w {unsafe}, or set TRAINER_CACHE_DIR to another folder"
        )


EXAMINATIONS: tuple[Callable[[Findings], None], ...] = (_versions, _names, _processor, _gpus, _caches)
