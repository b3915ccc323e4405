"""The limit of the folder of compiled kernels: the least recently used files are removed, and others may use it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainer import TrainerError
from trainer.engine.targets import disk_cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))
    return tmp_path / "objects"


def test_the_least_recently_used_files_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcdef":
        disk_cache.keep(name, bytes(968), ".o")  # 1000 bytes each, with the digest
        os.utime(folder / f"{name}.o", (ord(name), ord(name)))
    assert disk_cache.kept("a", ".o") == bytes(968)
    monkeypatch.setenv("TRAINER_KERNEL_CACHE_GB", "0.000005")  # nine tenths of it are four files and a half
    disk_cache.keep("g", bytes(968), ".o")
    assert sorted(file.name for file in folder.iterdir()) == ["a.o", "e.o", "f.o", "g.o"]


def test_several_writers_share_a_folder_that_overflows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINER_KERNEL_CACHE_GB", "0.00001")

    def write(writer: int) -> None:
        for number in range(40):
            disk_cache.keep(f"{writer}-{number}", bytes([number]) * 968, ".o")
            assert disk_cache.kept(f"{writer}-{number}", ".o") in (None, bytes([number]) * 968)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert 0 < sum(file.stat().st_size for file in folder.iterdir()) <= 10_000


@pytest.mark.parametrize(("limit", "files"), [("0", 0), ("inf", 3), ("", 3)])
def test_a_limit_of_zero_keeps_nothing_and_inf_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str, files: int
) -> None:
    monkeypatch.setenv("TRAINER_KERNEL_CACHE_GB", limit)
    for name in "abc":
        disk_cache.keep(name, bytes(968), ".o")
    assert len(list(folder.iterdir())) == files


@pytest.mark.parametrize("limit", ["5G", "-1", "nan"])
def test_a_limit_that_is_no_size_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setenv("TRAINER_KERNEL_CACHE_GB", limit)
    with pytest.raises(
        TrainerError, match=f"TRAINER_KERNEL_CACHE_GB: .*\n  found:    '{limit}'\n  expected: gigabytes"
    ):
        disk_cache.keep("a", b"", ".o")
