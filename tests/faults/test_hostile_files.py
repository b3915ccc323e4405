"""Files that mean harm: refused with the file's name, nothing run, nothing read or written elsewhere.

PyTorch's files: tests/learner/test_pytorch_files.py; archives of NumPy: tests/learner/test_weights.py; the reader of
YAML: tests/configs/test_reader.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.small_run import small_config, train
from trainer import TrainerError, configs, engine
from trainer.learner.checkpoints import Array, checkpoint_folder, pointed, read_checkpoint, write_checkpoint
from trainer.learner.checkpoints.format import _sealed, remove_checkpoint
from trainer.learner.weights import read_weights
from trainer.rundir import Event, create_run

WEIGHT = {"model": {"net.weight": Array(np.ones((2, 3), np.float32), engine.float32)}}


def resealed(folder: Path, **changes: Any) -> None:
    """Change a manifest, and give it the hash that it then has to have."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_bytes(_sealed({**manifest, **changes}))


# --- configurations ---------------------------------------------------------------------------------------------------

ALIASES = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed: !!python/object/apply:os.system ['touch MARKER']\n", "YAML tags are not supported:"),
        ("seed: !!python/object/new:subprocess.Popen [[touch, MARKER]]\n", "YAML tags are not supported:"),
        ("!!python/object/apply:os.system ['touch MARKER']\n", "YAML tags are not supported:"),
        ("seed: !!python/name:os.system\n", "YAML tags are not supported:"),
        (ALIASES, "more than 20000 values"),
        (f"a: {'[' * 50_000}", "nested more than|exceeded maximum nesting depth"),  # the latter by libyaml 0.2.6
        (f"a: {'{b: ' * 5_000}", "nested more than"),
        ("seed: &x [*x]\n", "not YAML|contains it"),
        ("task: ../../../../etc/passwd:Thing\n", "task"),
        ("seed: \x00\n", "unreadable character|not YAML"),
    ],
    ids=["apply", "new", "whole", "name", "aliases", "lists", "mappings", "loop", "task", "zero"],
)
def test_a_hostile_configuration_is_refused_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(text)
    with pytest.raises(TrainerError, match=said) as raised:
        configs.load("config.yaml", [])
    assert "config.yaml:" in str(raised.value)
    assert os.listdir(tmp_path) == ["config.yaml"]


def test_the_command_refuses_a_hostile_configuration_without_a_run(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: !!python/object/apply:os.system ['touch MARKER']\n")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "trainer.cli", "run", "config.yaml"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(repository)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and "config.yaml:1:7 seed: YAML tags are not supported:" in done.stderr
    assert os.listdir(tmp_path) == ["config.yaml"]


# --- safetensors ------------------------------------------------------------------------------------------------------


def headed(header: Any, data: bytes = bytes(24), length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(**changes: Any) -> dict[str, Any]:
    return {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **changes}}


TWO = {name: {"dtype": "F32", "shape": [3], "data_offsets": offsets} for name, offsets in
       (("a", [0, 12]), ("b", [8, 20]))}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        headed(entry(data_offsets=[0, 1 << 40])), headed(entry(data_offsets=[1 << 40, (1 << 40) + 24])),
        headed(entry(data_offsets=[-24, 0])), headed(entry(data_offsets=[24, 0])), headed(entry(data_offsets=[0])),
        headed(entry(data_offsets=[0.0, 24.0])), headed(entry(data_offsets=["0", "24"])), headed(TWO, bytes(20)),
        headed(entry(shape=[-2, -3])), headed(entry(shape=[1 << 62, 1 << 62])), headed(entry(shape=[2, True])),
        headed(entry(dtype="F64")), headed(entry(dtype="F8_E4M3")), headed(entry(dtype=["F32"])),
        headed(entry(), length=1 << 63), headed(entry(), length=100_000_001), headed(entry(), length=0),
        headed(b"[" * 100_000), headed(b'{"a":' * 100_000), headed(b"null"), headed(b'"w"'), headed(b"\xff\xfe{}"),
        headed(b'{"w":1,"w":2}'), headed({"__metadata__": {"a": 1}}, b""), headed(entry(more=1)),
        headed(entry(), bytes(25)), headed(entry(), bytes(23)), b"", bytes(7), bytes(8), b"\xff" * 8,
    ],
)  # fmt: skip
def test_a_safetensors_file_that_lies_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "w.safetensors"
    file.write_bytes(content)
    with pytest.raises(TrainerError) as raised:
        read_weights(file)
    assert str(file) in str(raised.value)


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../outside.safetensors", "/etc/passwd", "a/../../b.safetensors", "state.json/.."])
def test_a_checkpoint_that_names_files_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    folder, _ = write_checkpoint(tmp_path / "run", 4, WEIGHT, {})
    files = json.loads((folder / "manifest.json").read_text())["files"]
    resealed(folder, files={**files, name: files["model.safetensors"]})
    with pytest.raises(TrainerError, match="names a file that is not part of a checkpoint"):
        read_checkpoint(folder)
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"a":' * 100_000, b"null", b"[]", b"3", b'"format"', b"\xff", b"", b'{"format": 2}'],
    ids=["lists", "objects", "null", "list", "number", "text", "bytes", "empty", "bare"],
)
@pytest.mark.parametrize("name", ["manifest.json", "state.json"])
def test_json_that_is_no_manifest_and_no_state_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    folder, _ = write_checkpoint(tmp_path, 4, WEIGHT, {})
    (folder / name).write_bytes(content)
    with pytest.raises(TrainerError) as raised:
        read_checkpoint(folder)
    assert str(folder / name) in str(raised.value)


def test_a_manifest_that_promises_more_memory_than_there_is_is_refused(tmp_path: Path) -> None:
    folder, _ = write_checkpoint(tmp_path, 4, WEIGHT, {})
    files = json.loads((folder / "manifest.json").read_text())["files"]
    for size in (1 << 62, -1, 10**30):
        resealed(folder, files={**files, "model.safetensors": {**files["model.safetensors"], "bytes": size}})
        with pytest.raises(TrainerError, match="damaged checkpoint") as raised:
            read_checkpoint(folder)
        assert "model.safetensors" in str(raised.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
def test_a_pipe_or_a_folder_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    for number, make in enumerate((os.mkfifo, os.mkdir)):
        folder, _ = write_checkpoint(tmp_path / f"{number}", 4, WEIGHT, {})
        (folder / name).unlink()
        make(folder / name)
        with pytest.raises(TrainerError, match="incomplete checkpoint") as raised:
            read_checkpoint(folder)
        assert str(folder / name) in str(raised.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, lambda path: path.write_bytes(b"step-4" * 10**6), lambda path: path.symlink_to(path)],
    ids=["pipe", "folder", "long", "loop"],
)
def test_a_pointer_that_is_none_is_passed_over(tmp_path: Path, make: Any) -> None:
    folder, _ = write_checkpoint(tmp_path, 4, WEIGHT, {})
    make(tmp_path / "latest")
    assert pointed(tmp_path, "latest") is None and checkpoint_folder(tmp_path) == folder


def test_of_a_checkpoint_that_is_a_link_only_the_link_is_deleted(tmp_path: Path) -> None:
    elsewhere, _ = write_checkpoint(tmp_path / "elsewhere", 4, WEIGHT, {})
    before = {file: file.read_bytes() for file in elsewhere.iterdir()}
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / "step-4").symlink_to(elsewhere)
    write_checkpoint(checkpoints, 4, WEIGHT, {"another": 1})  # takes the link's place
    assert not (checkpoints / "step-4").is_symlink()
    remove_checkpoint(checkpoints, 4)
    (checkpoints / "step-4").symlink_to(elsewhere)
    remove_checkpoint(checkpoints, 4)
    assert os.listdir(checkpoints) == []
    assert {file: file.read_bytes() for file in elsewhere.iterdir()} == before


@pytest.mark.parametrize(
    "change",
    [{"step": "four"}, {"metrics": None}, {"numerics": 3}, {"sums": []}, {"patience": 1}, {"metrics": {"a": "b"}}],
    ids=str,
)
def test_a_state_that_is_none_is_a_clear_error_and_not_a_crash(tmp_path: Path, change: dict[str, Any]) -> None:
    paths, events = create_run(tmp_path, "run"), list[Event]()
    config = small_config(train={"steps": 2}, validate={"every_steps": 50}, schedule={"name": "constant"},
                          early_stopping=None, checkpoint={"every_steps": 50})  # fmt: skip
    train(paths, config, events.append).check()
    folder = paths.checkpoints / "step-2"
    whole = read_checkpoint(folder)
    write_checkpoint(paths.checkpoints, 2, whole.arrays, {**whole.state, **change})
    outcome = train(paths, config, events.append, attempt=2)
    assert (outcome.status, outcome.exit_code) == ("failed", 2) and "step-2" in str(outcome.error), outcome.error
