"""`trainer checkpoint`: what is in a file, whether checkpoints are whole, and other formats of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from trainer import engine
from trainer.cli import main
from trainer.learner.checkpoints import Array, write_checkpoint
from trainer.learner.checkpoints.format import point

TORCH_FILES = Path(__file__).parents[1] / "learner" / "torch_files"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with two checkpoints of a small model."""
    (tmp_path / "run").mkdir()
    for step in (5, 10):
        values = {"net.fc.weight": np.full((2, 3), step, np.float32), "net.fc.bias": np.zeros(2, np.float32)}
        arrays = {name: Array(value, engine.float32) for name, value in values.items()}
        write_checkpoint(tmp_path / "run" / "checkpoints", step, {"model": arrays, "ema": arrays}, {})
    return tmp_path / "run"


def test_inspect_lists_the_arrays(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "inspect", str(run)]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.endswith("step-10: a checkpoint, 2 arrays, 8 numbers, 0.00 MB")
    assert sorted(row.split() for row in rows) == [
        ["net.fc.bias", "float32", "[2]"], ["net.fc.weight", "float32", "[2,", "3]"],
    ]  # fmt: skip
    assert main(["checkpoint", "inspect", str(TORCH_FILES / "plain.pt"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "a PyTorch file" and found["arrays"]["fc.weight"] == {"dtype": "float32", "shape": [2, 4]}


def test_verify_names_what_is_damaged(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", str(run)]) == 0
    assert capsys.readouterr().out.count("all files are undamaged") == 2
    damaged = run / "checkpoints" / "step-5" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert main(["checkpoint", "verify", str(run), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [entry["good"] for entry in found.values()] == [False, True]
    assert str(damaged) in next(iter(found.values()))["problem"]
    assert main(["checkpoint", "verify", str(run / "checkpoints" / "step-10")]) == 0


def test_convert_writes_a_part_under_its_own_names(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "net.safetensors"
    words = ["checkpoint", "convert", str(run), str(target), "--part", "net", "--rename", r"\.fc\.=.head.", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["arrays"] == ["head.bias", "head.weight"]
    np.testing.assert_array_equal(load_file(target)["head.weight"], np.full((2, 3), 10, np.float32))


def test_the_best_checkpoint_is_taken_by_its_name(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = run / "checkpoints" / "best"
    point(best.parent, "best", 5)
    assert main(["checkpoint", "verify", str(best)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{best.parent / 'step-5'}: all files are undamaged"]
    assert main(["checkpoint", "convert", str(best), str(tmp_path / "net.safetensors"), "--entry", "ema"]) == 0
    np.testing.assert_array_equal(load_file(tmp_path / "net.safetensors")["net.fc.weight"], np.full((2, 3), 5))
    (best.parent / "step-5" / "manifest.json").unlink()
    assert main(["checkpoint", "inspect", str(best)]) == 2
    assert "step-5: no complete checkpoint" in capsys.readouterr().err


def test_convert_takes_pytorchs_files(tmp_path: Path) -> None:
    words = ["checkpoint", "convert", str(TORCH_FILES / "training.pth"), str(tmp_path / "w.npz"), "--exclude", "bn1.*"]
    assert main(words) == 0
    with np.load(tmp_path / "w.npz") as found, np.load(TORCH_FILES / "expected.npz") as expected:
        assert sorted(found) == ["conv1.bias", "conv1.weight", "fc.bias", "fc.weight"]
        np.testing.assert_array_equal(found["conv1.weight"], expected["net/conv1.weight"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["convert", "{run}"], "TARGET"),
        (["inspect", "{run}", "x.npz"], "x.npz"),
        (["convert", "{run}", "{tmp}/w.h5"], "unknown format of the target file"),
        (["convert", "{run}", "{run}/checkpoints/step-5/model.safetensors"], "the file already exists"),
        (["convert", "{run}", "{tmp}/w.npz", "--part", "backbone"], "no array is left"),
        (["convert", "{run}", "{tmp}/w.npz", "--rename", "fc"], "--rename needs REGEX=TEXT"),
        (["convert", "{run}", "{tmp}/w.npz", "--rename", "(=x"], "not a regular expression"),
        (["convert", "{run}", "{tmp}/w.npz", "--rename", ".*=x"], "two arrays would be named"),
        (["convert", "{run}", "{tmp}/nowhere/w.npz"], "nowhere"),
        (["inspect", "{tmp}/nothing.pt"], "no such file"),
        (["inspect", "{run}", "--entry", "training"], "has no 'training'"),
        (["verify", "{tmp}"], "no checkpoint"),
    ],
)
def test_mistakes_are_told(
    words: list[str], said: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint", *(word.format(run=run, tmp=tmp_path) for word in words)]) == 2
    assert said in capsys.readouterr().err
