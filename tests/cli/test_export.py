"""`trainer export`: a run's model as one file, and the same predictions from it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trainer
from trainer import TrainerError
from trainer.cli import main
from trainer.cli.verbs.export import size_of

PICTURE = np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short training of digits."""
    root = tmp_path_factory.mktemp("work") / "runs" / "small"
    settings = {"train": {"steps": 2}, "schedule": {"warmup_steps": 0}, "validate": {"worst_items": 0}}
    trainer.run({"extends": "digits", **settings}, run_dir=root)
    return root


def test_a_run_s_model_is_one_file_that_predicts_the_same(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(run.parents[1])
    before = contents(run)
    assert main(["export", "small"]) == 0
    assert "small.model: classification of digits, step-2" in capsys.readouterr().out
    assert contents(run) == before
    exported, model = trainer.load_model("small.model"), trainer.load_model("small")
    assert exported.predict(PICTURE).scores.tobytes() == model.predict(PICTURE).scores.tobytes()
    assert exported.metrics == model.metrics and exported.class_names == model.class_names
    assert main(["export", "small"]) == 2
    assert "the file already exists" in capsys.readouterr().err
    first = Path("small.model").read_bytes()
    assert main(["export", "small", "--force", "--license", "CC0"]) == 0
    assert b'\\"license\\":\\"CC0\\"' in Path("small.model").read_bytes() != first


def contents(folder: Path) -> dict[str, str]:
    """The hash of each file."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_the_python_call_writes_the_same_file_as_the_command(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), str(tmp_path / "a.model")]) == 0
    assert trainer.load_model(run).export(tmp_path / "b.model") == tmp_path / "b.model"
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "csv"], "trainer runs export RUN --to csv"),
        (["--to", "onnx"], "can't be exported to onnx"),
        (["--size", "480"], "HEIGHTxWIDTH"),
        (["--size", "0x5"], "HEIGHTxWIDTH"),
        (["--weights", "step-7"], "no such weights"),
        (["."], "the path is a folder"),
    ],
)
def test_what_can_t_be_exported_is_told(
    run: Path, words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(run), *words]) == 2
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_sizes_are_heights_by_widths() -> None:
    assert size_of("480x640") == (480, 640)


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(TrainerError, match=r"photo\.jpg(.|\n)*a file that `trainer export` wrote"):
        trainer.load_model(tmp_path / "photo.jpg")
    with pytest.raises(TrainerError, match="only one set of weights"):
        trainer.load_model(tmp_path / "photo.jpg", "latest")


def test_an_exported_model_is_read_without_its_task(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), str(tmp_path / "m.model")]) == 0
    code = (
        "import sys; sys.modules['trainer.recipes'] = None\n"
        "import trainer, numpy\n"
        "print(trainer.load_model(sys.argv[1]).predict(numpy.zeros((9, 9, 3), numpy.uint8)).class_name)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m.model")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in map(str, range(10))
