"""The memory that control groups leave, in both versions of their files."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from trainer.datasets.workers import memory
from trainer.datasets.workers.memory import free_memory, whole_memory

MACHINE, AVAILABLE = 16_000, 12_000


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 16,000 bytes of memory, 12,000 of them free, and no control group."""
    real = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: real._replace(total=MACHINE, available=AVAILABLE))
    monkeypatch.setattr(memory, "CONTROL_GROUP", tmp_path / "groups")
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "own")


def group(tmp_path: Path, path: str, **files: object) -> None:
    folder = tmp_path / "groups" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


def test_without_control_groups_the_machine_limits() -> None:
    assert (whole_memory(), free_memory()) == (MACHINE, AVAILABLE)


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("0::/\n")
    group(tmp_path, "", memory__max=4000, memory__current=1500)
    assert (whole_memory(), free_memory()) == (4000, 2500)


def test_the_tightest_group_on_the_way_to_the_root_limits(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("0::/user/job\n")
    group(tmp_path, "user", memory__max=5000, memory__current=4500)
    group(tmp_path, "user/job", memory__max=3000, memory__current=100)
    assert (whole_memory(), free_memory()) == (3000, 500)
    group(tmp_path, "user/job", memory__max="max", memory__current=100)
    assert whole_memory() == 5000


def test_the_files_of_version_1(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("9:cpu,cpuacct:/x\n4:memory:/job\n0::/\n")
    group(tmp_path, "memory/job", memory__limit_in_bytes=2000, memory__usage_in_bytes=2400)
    group(tmp_path, "memory", memory__limit_in_bytes=2**63 - 4096, memory__usage_in_bytes=9000)
    assert (whole_memory(), free_memory()) == (2000, 0)
