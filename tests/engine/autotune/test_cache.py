"""The cache of decisions: shared by processes, careful with what it finds, keyed by everything that matters."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trainer.engine.autotune import cache as cache_module
from trainer.engine.autotune.cache import Entry, TuningCache, cache_path, decision_key
from trainer.engine.graph import dtypes
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec

ENTRY = Entry("key", "matmul", "8x8x8", {"tile_rows": 4}, 1.5, 1.25, 8, {"slower": 3})
SPEC = MatmulSpec(dtypes.float32, 8, 8, 8, (8, 1), (8, 1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuning" / "cpu.jsonl"


def test_what_was_added_is_there_for_the_next_process(path: Path) -> None:
    first = TuningCache(path)
    first.add(ENTRY)
    first.add(replace(ENTRY, key="other"))
    first.add(replace(ENTRY, best_ms=1.0))
    assert TuningCache(path).entries() == [replace(ENTRY, key="other"), replace(ENTRY, best_ms=1.0)]
    assert TuningCache(path).get("key") == first.get("key") == replace(ENTRY, best_ms=1.0)
    assert TuningCache(path).get("unknown") is None
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_torn_line_is_named_and_costs_nothing_else(path: Path) -> None:
    TuningCache(path).add(ENTRY)
    with open(path, "a") as file:
        file.write(ENTRY.line[:40])
    with pytest.warns(RuntimeWarning, match=r"cpu\.jsonl:2: skipped"):
        cache = TuningCache(path)
    cache.add(replace(ENTRY, key="after"))
    with pytest.warns(RuntimeWarning):
        assert [entry.key for entry in TuningCache(path).entries()] == ["key", "after"]


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        '{"format": 99}',
        json.dumps({**json.loads(ENTRY.line), "further": 1}),
        json.dumps({**json.loads(ENTRY.line), "parameters": 3}),
        "\x00\x00\x00",
    ],
)
def test_a_foreign_line_is_passed_over(path: Path, line: str) -> None:
    TuningCache(path).add(ENTRY)
    path.write_text(f"{line}\n{path.read_text()}")
    with pytest.warns(RuntimeWarning, match=r"cpu\.jsonl:1: skipped"):
        assert TuningCache(path).entries() == [ENTRY]


def test_a_file_of_superseded_lines_is_written_anew(path: Path) -> None:
    TuningCache(path).add(ENTRY)
    path.write_text("".join(replace(ENTRY, best_ms=float(n)).line for n in range(cache_module._COMPACTED_FROM + 1)))
    assert TuningCache(path).entries() == [replace(ENTRY, best_ms=float(cache_module._COMPACTED_FROM))]
    assert len(path.read_text().splitlines()) == 1


def test_a_folder_that_others_may_write_to_is_not_used(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o777)
    disk_cache.private_directory.cache_clear()
    cache = TuningCache(path)
    cache.add(ENTRY)
    assert cache.get("key") == ENTRY and not path.exists()


def test_several_processes_lose_no_line(path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from dataclasses import replace\n"
        "from trainer.engine.autotune.cache import Entry, TuningCache\n"
        "cache = TuningCache(Path(sys.argv[1]))\n"
        "for n in range(50): cache.add(Entry(f'{sys.argv[2]}-{n}', 'o', 's', {}, 1.0, 1.0, 1, {}))\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path), str(n)]) for n in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert {entry.key for entry in TuningCache(path).entries()} == {f"{n}-{i}" for n in range(3) for i in range(50)}


def test_the_key_holds_all_that_a_decision_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    target = native.host_target()
    keys = {
        decision_key(SPEC, target, 2),
        decision_key(replace(SPEC, rows=9), target, 2),
        decision_key(replace(SPEC, dtype=dtypes.float64), target, 2),
        decision_key(replace(SPEC, a_strides=(1, 8)), target, 2),
        decision_key(SPEC, target, 1),
        decision_key(SPEC, native.Target(f"{target.features},-movbe"), 2),
    }
    monkeypatch.setattr(cache_module, "templates_hash", lambda: "another source")
    keys.add(decision_key(SPEC, target, 2))
    monkeypatch.undo()
    monkeypatch.setattr(cache_module, "_VERSIONS", ("9.9",))
    keys.add(decision_key(SPEC, target, 2))
    assert len(keys) == 8
    monkeypatch.undo()
    assert decision_key(SPEC, target, 2) in keys


def test_the_file_lies_beside_the_kernels_and_moves_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))
    assert cache_path().parent == tmp_path / "tuning" and cache_path().name.startswith("cpu-")
