"""Checkpoints on disk: readable by other tools, verified, all or nothing."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import safetensors
from safetensors.numpy import load_file

from trainer import TrainerError, engine
from trainer.learner.checkpoints import (
    Array,
    checkpoint_folder,
    is_better,
    pointed,
    read_checkpoint,
    steps_in,
    write_checkpoint,
)
from trainer.learner.checkpoints.format import _sealed, point, remove_leftovers

ARRAYS = {
    "model": {
        "net.weight": Array(np.arange(6, dtype=np.float32).reshape(2, 3), engine.float32),
        "net.count": Array(np.asarray(7), engine.int64),
        "net.mask": Array(np.array([True, False, True]), engine.bool_),
        "net.empty": Array(np.zeros((0, 4)), engine.float64),
    },
    "training": {"half": Array(np.array([0x3F80, 0xC000], np.uint16), engine.bfloat16)},
}


def test_round_trip(tmp_path):
    path, size = write_checkpoint(tmp_path, 30, ARRAYS, {"step": 30, "metrics": {"valid/loss": 0.5}})
    assert path == tmp_path / "step-30"
    assert size == sum(file.stat().st_size for file in path.iterdir())
    found = read_checkpoint(path)
    assert found.state["step"] == 30
    for stem, group in ARRAYS.items():
        assert found.arrays[stem].keys() == group.keys()
        for name, array in group.items():
            np.testing.assert_array_equal(found.arrays[stem][name].values, array.values)
            assert found.arrays[stem][name].dtype == array.dtype


def test_the_safetensors_library_reads_it(tmp_path):
    path, _ = write_checkpoint(tmp_path, 1, ARRAYS, {})
    loaded = load_file(path / "model.safetensors")
    np.testing.assert_array_equal(loaded["net.weight"], ARRAYS["model"]["net.weight"].values)
    assert loaded["net.count"].dtype == np.int64 and loaded["net.count"].shape == ()
    ((_, entry),) = safetensors.deserialize((path / "training.safetensors").read_bytes())
    assert entry["dtype"] == "BF16" and bytes(entry["data"]) == b"\x80\x3f\x00\xc0"


def test_bfloat16_widens_to_the_numbers_it_means():
    np.testing.assert_array_equal(ARRAYS["training"]["half"].widened(), np.array([1.0, -2.0], np.float32))


@pytest.mark.parametrize("name", ["model.safetensors", "state.json"])
def test_a_damaged_file_is_found(tmp_path, name):
    path, _ = write_checkpoint(tmp_path, 1, ARRAYS, {"step": 1})
    content = bytearray((path / name).read_bytes())
    content[-3] ^= 1
    (path / name).write_bytes(content)
    with pytest.raises(TrainerError, match="damaged") as raised:
        read_checkpoint(path)
    assert name in str(raised.value)


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "/etc/passwd", "a/b.safetensors", "model.safetensors\n", ".."]
)
def test_a_manifest_that_names_files_elsewhere_is_refused(tmp_path, name):
    path, _ = write_checkpoint(tmp_path, 1, ARRAYS, {})
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"][name] = manifest["files"].pop("model.safetensors")
    (path / "manifest.json").write_bytes(_sealed(manifest))
    with pytest.raises(TrainerError, match="names a file that is not part of a checkpoint"):
        read_checkpoint(path)


@pytest.mark.parametrize("text", ["../../elsewhere", "/tmp", "", "step-1/../..", "step--1", "step-٣"])
def test_a_pointer_elsewhere_is_none(tmp_path, text):
    path, _ = write_checkpoint(tmp_path / "checkpoints", 1, ARRAYS, {})
    (tmp_path / "checkpoints" / "latest").write_text(text)
    assert pointed(tmp_path / "checkpoints", "latest") is None
    assert checkpoint_folder(tmp_path) == path


def test_a_missing_file_and_another_format_are_named(tmp_path):
    path, _ = write_checkpoint(tmp_path, 1, ARRAYS, {})
    (path / "model.safetensors").unlink()
    with pytest.raises(TrainerError, match="incomplete checkpoint"):
        read_checkpoint(path)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(TrainerError, match="unknown checkpoint format"):
        read_checkpoint(path)


def test_a_write_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    write_checkpoint(tmp_path, 1, ARRAYS, {"step": 1})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrainerError, match="no space left"):
        write_checkpoint(tmp_path, 1, ARRAYS, {"step": 2})
    assert read_checkpoint(tmp_path / "step-1").state["step"] == 1
    assert os.listdir(tmp_path) == ["step-1"]


def test_a_checkpoint_of_the_same_step_is_replaced(tmp_path):
    write_checkpoint(tmp_path, 1, ARRAYS, {"attempt": 1})
    write_checkpoint(tmp_path, 1, ARRAYS, {"attempt": 2})
    assert read_checkpoint(tmp_path / "step-1").state["attempt"] == 2
    assert os.listdir(tmp_path) == ["step-1"]


def test_leftovers_do_not_count_and_go(tmp_path):
    write_checkpoint(tmp_path, 5, ARRAYS, {})
    (tmp_path / ".step-9.123").mkdir()
    (tmp_path / "step-7").mkdir()  # half deleted: no manifest
    assert steps_in(tmp_path) == [5]
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["step-5", "step-7"]


def test_finding_the_one_to_resume_from(tmp_path):
    folder = tmp_path / "checkpoints"
    with pytest.raises(TrainerError, match="no checkpoint to resume from"):
        checkpoint_folder(tmp_path)
    for step in (5, 10):
        write_checkpoint(folder, step, ARRAYS, {})
    assert checkpoint_folder(tmp_path) == folder / "step-10"
    point(folder, "latest", 5)
    assert pointed(folder, "latest") == folder / "step-5" == checkpoint_folder(tmp_path) == checkpoint_folder(folder)
    assert checkpoint_folder(folder / "step-10") == folder / "step-10"


def test_what_is_better():
    assert is_better(0.1, None, "max") and is_better(0.2, 0.1, "max") and is_better(0.1, 0.2, "min")
    assert not is_better(0.1, 0.1, "max") and not is_better(float("nan"), None, "min")
