"""The cache of objects: what is in it is used once it is verified, and nothing else is; without one all works too."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from trainer import engine
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.device import CpuDevice

IR = "define i64 @{name}(i64 %x) {{\n  %y = add i64 %x, {number}\n  ret i64 %y\n}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "objects"
    disk_cache.private_directory.cache_clear()


def outcome(number: int = 1, target: native.Target | None = None) -> str:
    """Compile `x + number`, run it, and say whether it was compiled or came from the cache."""
    before = native.object_counts()
    code = native.compile_object(IR.format(name="f", number=number), target)
    compiled, cached = (now - then for now, then in zip(native.object_counts(), before, strict=True))
    library = native.link({"f": code})
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library["f"])
    assert function(41) == 41 + number
    return {(1, 0): "compiled", (0, 1): "cached"}[compiled, cached]


def test_the_second_time_the_object_comes_from_the_cache(folder: Path) -> None:
    assert [outcome(), outcome(), outcome(2), outcome(2)] == ["compiled", "cached"] * 2
    assert len(list(folder.iterdir())) == 2
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda blob: blob[:-1], id="cut short"),
        pytest.param(lambda blob: b"", id="empty"),
        pytest.param(lambda blob: blob[:200] + bytes([blob[200] ^ 1]) + blob[201:], id="one bit"),
        pytest.param(lambda blob: bytes(32) + blob[32:], id="another digest"),
    ],
)
def test_a_damaged_file_is_compiled_again(folder: Path, damage: object) -> None:
    assert outcome() == "compiled"
    (file,) = folder.iterdir()
    good = file.read_bytes()
    file.write_bytes(damage(good))  # type: ignore[operator]
    assert [outcome(), outcome()] == ["compiled", "cached"]
    assert file.read_bytes() == good


def test_an_object_of_another_kernel_under_this_name_is_not_taken(folder: Path) -> None:
    outcome(1)
    (first,) = folder.iterdir()
    outcome(2)
    (second,) = set(folder.iterdir()) - {first}
    second.write_bytes(first.read_bytes())
    assert outcome(2) == "compiled"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are POSIX's")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(folder: Path, mode: int) -> None:
    folder.mkdir(parents=True)
    outcome()
    assert len(list(folder.iterdir())) == 1
    disk_cache.private_directory.cache_clear()
    folder.chmod(mode)
    assert [outcome(), outcome(), outcome(2)] == ["compiled"] * 3
    assert len(list(folder.iterdir())) == 1


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are POSIX's")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
@pytest.mark.parametrize("above", [1, 2])
def test_a_folder_is_not_used_where_others_may_write_to_one_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, above: int
) -> None:
    monkeypatch.setattr(disk_cache, "is_private_group", lambda number: False)
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path / "a" / "b" / "cache"))
    folder = tmp_path / "a" / "b" / "cache" / "objects"
    assert [outcome(), outcome()] == ["compiled", "cached"]
    disk_cache.private_directory.cache_clear()
    folder.parents[above].chmod(mode)
    with pytest.warns(RuntimeWarning, match="kernels are not cached"):
        assert [outcome(), outcome()] == ["compiled"] * 2
    assert disk_cache.unsafe_folder(folder) == folder.parents[above]
    disk_cache.private_directory.cache_clear()
    folder.parents[above].chmod(mode | 0o1000)  # as /tmp is
    assert outcome() == "cached"
    disk_cache.private_directory.cache_clear()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are POSIX's")
def test_a_group_of_this_user_alone_is_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "is_private_group", lambda number: number == tmp_path.stat().st_gid)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o770)
    folder = tmp_path / "cache" / "objects"
    assert disk_cache.private_directory(folder) == folder
    disk_cache.private_directory.cache_clear()
    (tmp_path / "cache").chmod(0o707)
    with pytest.warns(RuntimeWarning, match="kernels are not cached"):
        assert disk_cache.private_directory(folder) is None
    disk_cache.private_directory.cache_clear()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are POSIX's")
def test_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = disk_cache.private_directory(tmp_path / "a" / "b" / "objects")
    finally:
        os.umask(before)
        disk_cache.private_directory.cache_clear()
    assert folder == tmp_path / "a" / "b" / "objects"
    assert all(each.stat().st_mode & 0o777 == 0o700 for each in (folder, *folder.parents[:2]))


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are POSIX's")
@pytest.mark.parametrize("own", [True, False], ids=["ours", "theirs"])
@pytest.mark.parametrize("place", ["", "cache", "cache/objects"])
def test_folders_above_it_belong_to_root_or_to_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, own: bool
) -> None:
    folder = tmp_path / "cache" / "objects"
    folder.mkdir(parents=True, mode=0o700)
    foreign, known = tmp_path / place, os.lstat

    def lstat(path: Path) -> os.stat_result:
        found = list(known(path))
        if Path(path) == foreign:
            found[4] = os.getuid() if own else os.getuid() + 1
        return os.stat_result(found)

    monkeypatch.setattr(disk_cache.os, "lstat", lstat)
    try:
        assert disk_cache.private_directory(folder) == (folder if own else None)
    finally:
        disk_cache.private_directory.cache_clear()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are POSIX's")
def test_a_link_is_followed_to_folders_that_only_this_user_can_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open" / "real" / "objects").mkdir(parents=True)
    (tmp_path / "link").symlink_to(Path("open") / "real")
    (tmp_path / "loop").symlink_to("loop")
    folder = tmp_path / "link" / "objects"
    assert disk_cache.private_directory(folder) == folder
    disk_cache.private_directory.cache_clear()
    (tmp_path / "open").chmod(0o777)
    assert disk_cache.private_directory(folder) is None
    disk_cache.private_directory.cache_clear()
    (tmp_path / "open").chmod(0o755)
    known = os.lstat

    def foreign(path: Path) -> os.stat_result:  # a link in /tmp that another user can turn elsewhere
        found = list(known(path))
        found[4] = os.getuid() + 1 if Path(path).name == "link" else found[4]
        return os.stat_result(found)

    monkeypatch.setattr(disk_cache.os, "lstat", foreign)
    assert disk_cache.private_directory(folder) is None
    assert disk_cache.private_directory(tmp_path / "loop" / "objects") is None
    disk_cache.private_directory.cache_clear()


def test_a_cache_that_can_not_be_made_costs_compile_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path / "file"))
    assert [outcome(), outcome()] == ["compiled"] * 2


def test_a_disk_that_can_not_be_written_costs_compile_time_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> tuple[int, str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk_cache.tempfile, "mkstemp", full)
    assert [outcome(), outcome()] == ["compiled"] * 2
    assert list(folder.iterdir()) == []


def test_another_feature_set_has_another_object(folder: Path) -> None:
    narrow = native.host_target(narrow=True)
    if narrow == native.host_target():
        narrow = native.Target(native.host_target().features.replace("+sse4.2", "-sse4.2"))
    kinds = [outcome(1, target) for target in (native.host_target(), narrow, native.host_target(), narrow)]
    assert kinds == ["compiled", "compiled", "cached", "cached"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TRAINER_CACHE_DIR": "/a"}, "/a/objects"),
        ({"TRAINER_CACHE_DIR": "", "XDG_CACHE_HOME": "/b"}, "/b/trainer/objects"),
        ({"TRAINER_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/trainer/objects"),
    ],
)
def test_where_objects_are_kept(variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert disk_cache.cache_directory() == Path(expected)


def test_code_unloads_when_nobody_holds_it_and_its_name_is_free_again() -> None:
    for number in (1, 2):
        library = native.link({"same": native.compile_object(IR.format(name="same", number=number))})
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library["same"])(0) == number


def test_ir_that_is_wrong_is_refused_and_not_kept(folder: Path) -> None:
    with pytest.raises(RuntimeError):
        native.compile_object("define i64 @f() { ret i32 0 }")
    assert not folder.exists() or list(folder.iterdir()) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_copysign_that_is_selected_keeps_the_bits_of_both_operands_apart(dtype: str) -> None:
    """LLVM 22 merges the two on AVX-512, with the truth table of another order of operands."""
    rng = np.random.default_rng(0)
    x, y, chosen = (rng.normal(size=256).astype(dtype) for _ in range(3))

    def call(x: engine.Tensor, y: engine.Tensor, chosen: engine.Tensor) -> engine.Tensor:
        return engine.where(chosen > 0, engine.copysign(x, -y), x)

    with engine.device(CpuDevice(threads=1)):
        found = engine.trace(call)(x, y, chosen).numpy()
    np.testing.assert_array_equal(found, np.where(chosen > 0, np.copysign(x, -y), x))
