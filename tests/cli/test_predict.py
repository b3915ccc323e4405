"""`trainer predict`, `trainer evaluate` and the same from Python, on models that are trained for a moment."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import trainer
from trainer import TrainerError
from trainer.cli import main

pytestmark = pytest.mark.full

CELLS = Path(trainer.__file__).parent / "recipes" / "detection" / "data"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with runs `cells` and `digits`, photos and damaged files."""
    place = tmp_path_factory.mktemp("predict")
    trainer.run(
        "detection", run_dir=place / "runs" / "cells", show=False, train={"steps": 3, "log_every_steps": 1},
        autotune={"mode": "off"}, validate={"batches": 1, "every_epochs": 1000},
        checkpoint={"every_epochs": 1000}, data={"workers": 0, "cache_gb": 0, "batch_size": 2},
        options={"width": 16, "blocks": [1, 1, 1, 1], "pyramid_channels": 16, "head_depth": 1},
        **{"data.reader.splits": {"train": "train", "valid": "val"}},
    )  # fmt: skip
    trainer.run("digits", run_dir=place / "runs" / "digits", show=False, train={"epochs": 1})
    photos = place / "photos"
    (photos / "more").mkdir(parents=True)
    for number, source in enumerate(sorted((CELLS / "images").glob("*.jpg"))[:4]):
        target = photos / ("more" if number == 3 else "") / f"{number}.jpg"
        target.write_bytes(source.read_bytes())
    (photos / "damaged.png").write_bytes((photos / "0.jpg").read_bytes()[:3000])
    return place


@pytest.fixture(autouse=True)
def within(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def files_below(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*")}


def test_the_example_of_the_documentation_runs_as_it_is_written(repository, capsys):
    page = (repository / "docs" / "inference.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(import trainer\n.*?)```", page, re.DOTALL)
    Path("my_data").symlink_to(CELLS)
    Path("photo.jpg").symlink_to("photos/0.jpg")
    before, handler = files_below(Path("runs")), signal.getsignal(signal.SIGTERM)
    found: dict[str, Any] = {}
    exec(example, found)
    assert "photos/damaged.png 0 " in capsys.readouterr().out
    model, result, report = found["model"], found["result"], found["report"]
    assert "detection" in repr(model) and "RBC, WBC, Platelets" in repr(model)
    assert result.boxes.shape == (len(result), 4)
    assert result._repr_html_().startswith("<div><img")
    with Image.open("out.png") as drawn, Image.open("photo.jpg") as photo:
        assert drawn.size == photo.size
    assert 0 <= report.metrics["coco/AP"] <= 1
    assert len(report.worst(8)) == 8 and report.worst(8)[0].files[0].exists()
    everything = [one.predict("photo.jpg", score_threshold=0.0) for one in (model, trainer.load_model("cells.model"))]
    assert everything[0].to_dict() == everything[1].to_dict()
    assert everything[0].to_coco()[0]["image_id"] == "photo"
    assert trainer.load_model("cells.model").about.weights == f"exported from {model.about.weights}"
    assert files_below(Path("runs")) == before  # nothing is added to a run
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_folder_is_predicted_in_order_and_bad_files_are_told():
    found = list(trainer.load_model("runs/cells").predict("photos/", on_error="skip"))
    assert [(Path(one.path).name, one.error is None) for one in found] == [
        ("0.jpg", True), ("1.jpg", True), ("2.jpg", True), ("damaged.png", False), ("3.jpg", True),
    ]  # fmt: skip
    assert len(found[3]) == 0


def test_weights_are_those_behind_the_best_metric():
    model = trainer.load_model("runs/cells")
    assert model.about.weights.endswith("averaged")  # the metric is valid/ema/coco/AP
    assert not trainer.load_model("runs/digits").about.weights.endswith("averaged")
    step = Path("runs/cells/checkpoints/latest").read_text().strip()
    for weights in ("latest", step):
        other = trainer.load_model("cells", weights)
        assert other.predict("photos/0.jpg").to_dict() == model.predict("photos/0.jpg").to_dict()
    with pytest.raises(TrainerError, match="no such weights") as raised:
        trainer.load_model("cells", "step-77")
    assert step in str(raised.value)


def test_evaluating_gives_the_metrics_of_the_run():
    run = trainer.open_run("runs/digits")
    model = trainer.load_model("runs/digits")
    for split in ("valid", "test"):
        found = model.evaluate(split=split).metrics
        assert found == {name: run.metrics[f"{split}/{name}"].value[-1] for name in found}


def test_any_thread_may_predict():
    model = trainer.load_model("runs/cells")
    files = [f"photos/{number}.jpg" for number in range(3)]
    one_by_one = [model.predict(file, score_threshold=0.0).to_dict() for file in files]
    found: dict[int, Any] = {}

    def predict(number: int) -> None:
        found[number] = model.predict(files[number], score_threshold=0.0).to_dict()

    threads = [threading.Thread(target=predict, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(3)] == one_by_one


def test_the_model_is_there_without_its_data(tmp_path, monkeypatch):
    """Everything that the network is made of stands in the checkpoint."""
    monkeypatch.setattr("trainer.learner.task.Task.read_splits", lambda task: pytest.fail("the data was read"))
    assert trainer.load_model("runs/cells").class_names == ("RBC", "WBC", "Platelets")


def test_predicting_loads_neither_matplotlib_nor_pandas():
    code = (
        "import sys, trainer; trainer.load_model('runs/digits').predict('photos/0.jpg').save('out.png');"
        "print(sorted({'matplotlib', 'pandas', 'textual', 'pycocotools'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(trainer.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("none.jpg", "no such file"),
        ("photos/damaged.png", "cut short|damaged|not an image"),
        ("film.mp4", "video is not supported"),
        (np.zeros((4, 4, 3)), "not an image"),
        (np.zeros((4, 4), np.uint8), "not an image"),
        ([3], "not an image"),
    ],
)
def test_bad_input_raises_in_one_clear_sentence(source, message):
    model = trainer.load_model("runs/digits")
    with pytest.raises(TrainerError, match=message):
        model.predict(source)


def test_arguments_that_mean_nothing_are_refused():
    with pytest.raises(TrainerError, match="can't be selected by score"):
        trainer.load_model("runs/digits").predict("photos/0.jpg", score_threshold=0.5)
    with pytest.raises(TrainerError, match="unknown class"):
        trainer.load_model("runs/cells").predict("photos/0.jpg", classes=["cat"])
    with pytest.raises(TrainerError, match="batch size"):
        trainer.load_model("runs/cells").predict("photos/0.jpg", batch_size=0)


def test_classes_and_threshold_select(capsys):
    model = trainer.load_model("runs/cells")
    everything = model.predict("photos/0.jpg", score_threshold=0.0)
    middle = float(np.median(everything.scores))
    some = model.predict("photos/0.jpg", score_threshold=middle, classes=[everything.class_names[0]])
    assert 0 < len(some) < len(everything)
    assert set(some.class_names) == {everything.class_names[0]}
    assert (some.scores >= middle).all()


def test_the_command_draws_and_names_what_it_skips(tmp_path, capsys):
    assert main(["predict", "cells", "photos", "--out", str(tmp_path / "drawn"), "--threshold", "0"]) == 1
    printed = capsys.readouterr()
    assert files_below(tmp_path / "drawn") == {"0.jpg", "1.jpg", "2.jpg", "more", "more/3.jpg"}
    assert "skipped: photos/damaged.png" in printed.err
    assert "1 of 5 inputs were skipped" in printed.err
    assert printed.out.count("\n") == 4


def test_the_command_writes_coco_with_the_categories_of_the_data(tmp_path, capsys):
    out = tmp_path / "found.json"
    assert main(["predict", "cells", "photos/[01].jpg", "--format", "coco", "--out", str(out), "--threshold", "0"]) == 0
    entries = json.loads(out.read_text())
    known = {
        one["id"] for one in json.loads((CELLS / "annotations" / "instances_train.json").read_text())["categories"]
    }
    assert {entry["category_id"] for entry in entries} <= known
    assert {entry["image_id"] for entry in entries} == {0, 1}


def test_the_command_prints_json_and_reads_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("photos/0.jpg\nphotos/1.jpg\n"))
    assert main(["predict", "digits", "-", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["path"] for line in lines] == ["photos/0.jpg", "photos/1.jpg"]
    assert not Path("predictions").exists()


def test_the_command_refuses_a_format_that_the_model_has_not(capsys):
    assert main(["predict", "digits", "photos", "--format", "masks"]) == 2
    assert "the format doesn't support the model's results" in capsys.readouterr().err


def test_the_command_writes_lines_of_text(tmp_path):
    assert (
        main(["predict", "cells", "photos/0.jpg", "--format", "txt", "--out", str(tmp_path), "--threshold", "0"]) == 0
    )
    rows = [line.split() for line in (tmp_path / "0.txt").read_text().splitlines()]
    assert rows
    assert all(len(row) == 6 and row[0] in "012" for row in rows)


def test_evaluate_prints_metrics_classes_and_worst_items(tmp_path, capsys):
    assert main(["evaluate", "cells", "--report", str(tmp_path / "report")]) == 0
    printed = capsys.readouterr().out
    assert "coco/AP" in printed
    assert "RBC" in printed
    assert "worst items" in printed
    assert any(path.suffix == ".png" for path in (tmp_path / "report").rglob("*"))
    assert main(["evaluate", "digits", "--split", "test", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["items"] == 1500
    counts = np.array(found["reports"]["confusion_matrix"]["counts"])
    assert np.trace(counts) / counts.sum() == pytest.approx(found["metrics"]["accuracy"])


def test_evaluate_names_the_splits_that_are_there(capsys):
    assert main(["evaluate", "digits", "--split", "nonsense"]) == 2
    assert "train, valid, test" in capsys.readouterr().err


def test_data_with_other_classes_is_refused(tmp_path, capsys):
    for name in ("cat", "dog"):
        (tmp_path / "valid" / name).mkdir(parents=True)
        Image.new("L", (28, 28)).save(tmp_path / "valid" / name / "1.png")
    assert main(["evaluate", "digits", "--data", str(tmp_path)]) == 2
    assert "the data has other classes than the model" in capsys.readouterr().err


def test_another_decoder_than_in_training_is_a_warning(monkeypatch, capsys):
    from trainer.learner import progress

    now = progress.versions()
    monkeypatch.setattr(progress, "versions", lambda: {**now, "pillow": "9.9"})
    with pytest.warns(UserWarning, match="pillow .*now 9.9: predictions may round"):
        trainer.load_model("digits")
    assert main(["predict", "digits", "photos/0.jpg", "--json"]) == 0
    assert capsys.readouterr().err.startswith("warning: pillow")


def test_a_run_without_a_checkpoint_has_no_model(tmp_path, capsys):
    (tmp_path / "config-1.yaml").write_text("task: digits\n")
    assert main(["predict", str(tmp_path), "photos/0.jpg"]) == 2
    assert "the run has no checkpoint" in capsys.readouterr().err
    assert main(["evaluate", "nothing"]) == 2
    assert "no such run: nothing" in capsys.readouterr().err


def test_a_task_that_makes_no_predictions_is_evaluated_and_says_so(tmp_path, capsys):
    """As one of the user's own whose class has no `pipeline`."""
    code = "from trainer.recipes.digits.task import Digits\n"
    code += "class Plain(Digits):\n    pipeline = Digits.__base__.pipeline\n"
    (tmp_path / "task.py").write_text(code)
    (tmp_path / "options.py").write_text("from trainer.recipes.digits.options import Options as Options\n")
    trainer.run(
        {"extends": "digits", "task": f"{tmp_path}/task.py:Plain"}, run_dir=tmp_path / "run", show=False,
        train={"steps": 2, "epochs": None}, autotune={"mode": "off"},
    )  # fmt: skip
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert "Plain doesn't support inference" in repr(trainer.load_model(tmp_path / "run"))
    assert main(["predict", str(tmp_path / "run"), "photos/0.jpg"]) == 2
    assert "Plain doesn't support inference" in capsys.readouterr().err
