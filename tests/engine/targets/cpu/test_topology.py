"""Physical cores, shared caches, memory nodes and quotas, as Linux describes them on several machines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from trainer.engine.targets.cpu.topology import Topology, available_processors, available_threads


def listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) + "\n"


def tree(
    root: Path,
    cores: Sequence[Sequence[int]],
    caches: Mapping[int, Sequence[Sequence[int]]] | None = None,
    nodes: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> Path:
    """The files of a machine of which `cores` and the `caches` of each level are lists of logical processors."""
    written = {f"sys/devices/system/node/node{number}/cpulist": text for number, text in enumerate(nodes)}
    for core in cores:
        for processor in core:
            folder = f"sys/devices/system/cpu/cpu{processor}"
            written[f"{folder}/topology/thread_siblings_list"] = listed(core)
            written |= {f"{folder}/cache/index{n}/level": "1\n" for n in (0, 1)}
            for level, groups in (caches or {}).items():
                sharing = next(group for group in groups if processor in group)
                written[f"{folder}/cache/index{level}/level"] = f"{level}\n"
                written[f"{folder}/cache/index{level}/type"] = "Unified\n"
                written[f"{folder}/cache/index{level}/shared_cpu_list"] = listed(sharing)
    for name, text in (written | dict(files or {})).items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_a_laptop_with_hyperthreads_has_a_thread_for_each_core(tmp_path: Path) -> None:
    cores = [(n, n + 4) for n in range(4)]
    root = tree(tmp_path, cores, {2: cores, 3: [range(8)]}, nodes=["0-7\n"])
    found = Topology.read(root, range(8))
    assert found.cores == tuple(cores) and found.caches == {2: tuple(cores), 3: (tuple(range(8)),)}
    assert (found.threads, found.processors, found.quota, found.slower) == (4, 8, None, frozenset())
    assert Topology.read(root, {0, 4, 1}).cores == ((0, 4), (1,))  # as taskset binds a process


def test_a_server_of_two_sockets_has_two_memory_nodes(tmp_path: Path) -> None:
    cores = [(n, n + 64) for n in range(64)]
    dies = [(*range(n, n + 8), *range(n + 64, n + 72)) for n in range(0, 64, 8)]
    root = tree(tmp_path, cores, {2: cores, 3: dies}, nodes=["0-31,64-95\n", "32-63,96-127\n"])
    found = Topology.read(root, range(128))
    assert (found.threads, found.processors, len(found.caches[3])) == (64, 128, 8)
    assert found.nodes == ((*range(32), *range(64, 96)), (*range(32, 64), *range(96, 128)))
    half = Topology.read(root, found.nodes[1])
    assert half.threads == 32 and half.nodes == (found.nodes[1],)


def test_slower_cores_are_named_and_count(tmp_path: Path) -> None:
    """Two fast cores with hyperthreads, four slow ones that share a second-level cache."""
    cores = [(0, 1), (2, 3), (4,), (5,), (6,), (7,)]
    root = tree(tmp_path, cores, {2: [(0, 1), (2, 3), (4, 5, 6, 7)]}, files={"sys/devices/cpu_atom/cpus": "4-7\n"})
    found = Topology.read(root, range(8))
    assert (found.threads, found.slower) == (6, frozenset({4, 5, 6, 7}))


def test_slower_cores_of_an_arm_processor_have_a_smaller_capacity(tmp_path: Path) -> None:
    capacities = {f"sys/devices/system/cpu/cpu{n}/cpu_capacity": f"{c}\n" for n, c in enumerate((446, 446, 1024, 1024))}
    assert Topology.read(tree(tmp_path, [(n,) for n in range(4)], files=capacities), range(4)).slower == {0, 1}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "300000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        (
            {
                "proc/self/cgroup": "0::/batch.slice/job\n",
                "sys/fs/cgroup/batch.slice/job/cpu.max": "max 100000\n",
                "sys/fs/cgroup/batch.slice/cpu.max": "500000 100000\n",
            },
            5,
        ),
        ({"proc/self/cgroup": "0::/../../on/the/host\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        (
            {
                "proc/self/cgroup": "3:cpuset:/a\n2:cpu,cpuacct:/docker/a\n1:name=systemd:/a\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
)
def test_a_control_group_limits_the_threads(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    assert Topology.read(tree(tmp_path, [(n,) for n in range(8)], files=files), range(8)).threads == expected


def test_a_quota_of_hyperthreads_grants_no_more_than_the_cores(tmp_path: Path) -> None:
    quota = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "600000 100000\n"}
    found = Topology.read(tree(tmp_path, [(n, n + 4) for n in range(4)], files=quota), range(8))
    assert (found.threads, found.processors, found.quota) == (4, 6, 6.0)


@pytest.mark.parametrize(
    ("physical", "expected"), [(4, ((0, 1), (2, 3), (4, 5), (6, 7))), (None, tuple((n,) for n in range(8)))]
)
def test_without_a_description_cores_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, physical: int | None, expected: tuple[tuple[int, ...], ...]
) -> None:
    monkeypatch.setattr("psutil.cpu_count", lambda logical: physical)
    found = Topology.read(tmp_path, range(8))
    assert (found.cores, found.caches, found.nodes, found.quota) == (expected, {}, (), None)


def test_the_default_numbers_are_those_of_this_machine() -> None:
    found = Topology.read()
    assert (available_threads(), available_processors()) == (found.threads, found.processors)
    assert 1 <= found.threads <= found.processors <= (os.cpu_count() or 1)
