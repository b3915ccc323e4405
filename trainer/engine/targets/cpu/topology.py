"""The processors that this process may use: cores, the caches and memory nodes that they share, and the CPU quota.

Linux lists them in /sys/devices/system. A process may be bound to some of them (its affinity, which a cpuset limits),
and its control group and every group above it may limit its time: cpu.max, or cpu.cfs_quota_us in version 1. On other
systems psutil counts the cores.

A core counts once, regardless of its number of hyperthreads: they share its multipliers, which one thread of a kernel
keeps busy. Slower cores count like others: threads claim tasks, so a slower one takes fewer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

ROOT = Path("/")
SHARED_CACHES = (2, 3)
"""Levels of caches that several cores may share."""

Groups = tuple[tuple[int, ...], ...]
"""Groups of logical processors, by number, that share a resource."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Logical processors that this process may use, in groups; `caches` and `nodes` are empty if they are not known.

    cores: the processors of each physical core. caches: by level, those that share a cache. nodes: those of each memory
    node. slower: those of slower cores. quota: usable time in units of one processor's time; None: no limit.
    """

    cores: Groups
    caches: dict[int, Groups]
    nodes: Groups
    slower: frozenset[int]
    quota: float | None

    @classmethod
    def read(cls, root: Path = ROOT, allowed: Collection[int] | None = None) -> Topology:
        """The topology that the files under `root` describe, of the `allowed` processors (default: the affinity)."""
        own = sorted(affinity() if allowed is None else allowed)
        folder = root / "sys/devices/system"
        caches = {level: _groups(own, partial(_cache, folder, level)) for level in SHARED_CACHES}
        nodes = [_list(file) for file in sorted((folder / "node").glob("node[0-9]*/cpulist"))]
        return cls(
            _cores(root, own),
            {level: groups for level, groups in caches.items() if groups},
            tuple(part for node in nodes if (part := tuple(each for each in own if each in node))),
            frozenset(_slower(root, own)),
            _quota(root),
        )

    @property
    def processors(self) -> int:
        """Logical processors, limited by the quota."""
        return _within(sum(map(len, self.cores)), self.quota)

    @property
    def threads(self) -> int:
        """The default number of threads: physical cores, limited by the quota."""
        return _within(len(self.cores), self.quota)


def available_threads() -> int:
    """The default number of threads: physical cores within this process's affinity and its control group's quota."""
    return _within(len(_cores(ROOT, sorted(affinity()))), _quota(ROOT))


def available_processors() -> int:
    """Logical processors within this process's affinity and its control group's quota."""
    return _within(len(affinity()), _quota(ROOT))


def _within(count: int, quota: float | None) -> int:
    return count if quota is None else max(1, min(count, int(quota)))


def affinity() -> Collection[int]:
    """The logical processors that this process may run on."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _cores(root: Path, allowed: list[int]) -> Groups:
    folder = root / "sys/devices/system/cpu"
    found = _groups(allowed, lambda each: _list(folder / f"cpu{each}/topology/thread_siblings_list"))
    if found:
        return found
    import psutil  # imported on first use: it takes 10 ms

    count = min(len(allowed), psutil.cpu_count(logical=False) or len(allowed))
    edges = [len(allowed) * part // count for part in range(count + 1)]  # on other systems, siblings are neighbors
    return tuple(tuple(allowed[begin:end]) for begin, end in pairwise(edges))


def _groups(allowed: list[int], sharing: Callable[[int], Collection[int]]) -> Groups:
    """Groups the allowed processors by what they share; empty if that is not known for one of them."""
    found: list[tuple[int, ...]] = []
    known: set[int] = set()
    for processor in allowed:
        if processor in known:
            continue
        others = sharing(processor)
        if processor not in others:
            return ()
        found.append(tuple(each for each in allowed if each in others))
        known |= set(found[-1])
    return tuple(found)


def _cache(folder: Path, level: int, processor: int) -> Collection[int]:
    """The processors that share the data cache of a level with `processor`."""
    for cache in sorted((folder / f"cpu/cpu{processor}/cache").glob("index[0-9]*")):
        if _text(cache / "level") == str(level) and _text(cache / "type") != "Instruction":
            return _list(cache / "shared_cpu_list")
    return ()


def _slower(root: Path, allowed: list[int]) -> Iterator[int]:
    """The processors that Intel calls atoms, or whose capacity is below the largest."""
    atoms = _list(root / "sys/devices/cpu_atom/cpus")
    folder = root / "sys/devices/system/cpu"
    capacities = {each: int(_text(folder / f"cpu{each}/cpu_capacity") or 0) for each in allowed}
    most = max(capacities.values(), default=0)
    yield from (each for each in allowed if each in atoms or capacities[each] < most)


def _quota(root: Path) -> float | None:
    """The minimum quota of the process's control groups and all groups above them; None without a limit."""
    granted = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        tree = root / "sys/fs/cgroup" / controllers
        folder = tree.joinpath(*(part for part in path.split("/") if part not in ("", "..")))
        # in a container, the path may name a group of the host that the container's own tree does not contain
        for group in (folder, *folder.parents[: len(folder.parts) - len(tree.parts)]):
            if controllers:
                quota, period = _text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")
            else:
                quota, _, period = _text(group / "cpu.max").partition(" ")
            if quota and period and quota not in ("max", "-1"):
                granted.append(int(quota) / int(period))
    return min(granted, default=None)


def _list(file: Path) -> Collection[int]:
    """The numbers of a list like 0-3,8; empty if the file does not exist."""
    found: set[int] = set()
    for part in _text(file).split(","):
        first, _, last = part.partition("-")
        if first:
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _text(file: Path) -> str:
    """A file's text; "" if the file does not exist or can't be read."""
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""
