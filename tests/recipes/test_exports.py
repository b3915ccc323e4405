"""Every recipe that predicts, exported: the same bits in a process in which no recipe can be imported."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.recipes.building import built
from trainer import TrainerError, engine
from trainer.configs import load
from trainer.learner.evaluating import Evaluator
from trainer.learner.exported import Card, write_exported
from trainer.learner.exported.evaluating import evaluation_of
from trainer.learner.exported.model import model_in
from trainer.learner.inference.model import About, Model
from trainer.learner.measuring import Measuring, Occasion
from trainer.learner.running import Runner

SMALL: dict[str, tuple[str, ...]] = {
    "digits": (),
    "clothes": ("options.width=8", "data.transforms.valid=[{name: resize, size: 32}]"),
    "detection": (
        "options.width=8", "options.pyramid_channels=16", "options.candidates=30", "options.detections=10",
        "options.score_threshold=0.0", "data.transforms.valid=[{name: resize, size: [64, 96]}]",
    ),
    "nuclei": ("options.widths=[8, 8]", "data.transforms.valid=[{name: pad, size: 64}]"),
    "segmentation": ("options.widths=[8, 8]", "options.tile=32", "options.margin=4"),
    "pix2pix": ("options.filters=4", "options.depth=4", "data.transforms.valid=[{name: resize, size: 32}]"),
}  # fmt: skip
"""What makes a recipe's networks and pictures small; weights are those before training."""

ELSEWHERE = """
import sys
sys.modules["trainer.recipes"] = None  # importing it fails
sys.path.append(sys.argv[1])
import json
import numpy as np
from pathlib import Path
from tests.recipes.test_exports import digests
import trainer
model = trainer.load_model(sys.argv[2])
files = sorted(Path(sys.argv[3]).iterdir())
print(json.dumps([digests(model.predict(files, batch_size=size)) for size in (1, 3, 8)]))
assert not [name for name in sys.modules if name.startswith("trainer.recipes.")]
"""


def digests(results: Iterable[Any]) -> list[str]:
    """What tells results apart, to the last bit."""
    return [
        hashlib.sha256(
            b"".join(
                value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
                for value in (getattr(result, field.name) for field in fields(result))
            )
        ).hexdigest()
        for result in results
    ]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of several sizes."""
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number, size in enumerate(((40, 60), (60, 33), (20, 20), (64, 64))):
        Image.fromarray(random.integers(0, 256, (*size, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return folder


MEASURED = ("clothes", "detection")


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=[] if name == "digits" else [pytest.mark.full]) for name in SMALL]
)
def test_an_exported_recipe_predicts_the_same_bits_without_its_code(
    recipe: str, photos: Path, tmp_path: Path, repository: Path
) -> None:
    task = built(recipe, *SMALL[recipe], "data.workers=0")
    pipeline = task.pipeline()
    write_exported(tmp_path / "m.model", pipeline, numerics={"class": "exact", "bfloat16": "pairs"}, card=Card(recipe))
    expected = digests(Model(pipeline, About(recipe, "", "")).predict(sorted(photos.iterdir()), batch_size=3))
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(repository), str(tmp_path / "m.model"), str(photos)],
        capture_output=True, text=True, cwd=repository, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [expected] * 3
    assert len(set(expected)) > 1


@pytest.mark.parametrize("recipe", ["digits", *(pytest.param(name, marks=pytest.mark.full) for name in MEASURED)])
def test_an_exported_recipe_measures_what_its_run_does(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metrics of validation, on the data that the recipe carries, all but those that are the task's own."""
    quality_targets = [*SMALL[recipe], "data.workers=0", "data.cache_gb=0", "validate.worst_items=0"]
    loaded = load(recipe, quality_targets)
    task = built(recipe, *quality_targets)
    numerics, card = {"class": "exact", "bfloat16": "pairs"}, Card(recipe)
    evaluation = evaluation_of(loaded.config)
    write_exported(tmp_path / "m", task.pipeline(), numerics=numerics, card=card, evaluation=evaluation)
    root = loaded.config.data.root
    found = model_in(tmp_path / "m").evaluate(root)
    with engine.device("cpu"):
        expected = measured(task)
    assert found.metrics and {name: expected[name] for name in found.metrics} == found.metrics
    assert found.items == len(task.data().valid.dataset)


def measured(task: Any) -> dict[str, float]:
    """What validation of a task measures."""
    measuring = Measuring(task.config, lambda event: None, None)
    try:
        loader = task.data().valid
        measuring.name_classes(tuple(getattr(task, "class_names", ())))
        run = Runner(task.config, lambda event: None, lambda: None)
        evaluator = Evaluator(task, measuring, run, lambda event: None, None, lambda: None)
        late: dict[str, float] = {}
        measuring.late = late.update
        values = evaluator(loader, Occasion(1, 0.0, "valid", ()), name="validate")
        measuring.settle(wait=True)
    finally:
        measuring.close()
    return {**values, **{name.removeprefix("valid/"): value for name, value in late.items()}}


def test_instances_and_missing_data_are_told(tmp_path: Path) -> None:
    task = built("nuclei", *SMALL["nuclei"], "data.workers=0")
    write_exported(
        tmp_path / "m", task.pipeline(), numerics={"class": "exact", "bfloat16": "pairs"}, card=Card("nuclei")
    )
    with pytest.raises(TrainerError, match="can't be evaluated"):
        model_in(tmp_path / "m").evaluate(tmp_path)
    task = built("digits", "data.workers=0")
    write_exported(
        tmp_path / "d", task.pipeline(), numerics={"class": "exact", "bfloat16": "pairs"}, card=Card("digits")
    )
    with pytest.raises(TrainerError, match="no data given"):
        model_in(tmp_path / "d").evaluate()
    with pytest.raises(TrainerError, match="no such folder"):
        model_in(tmp_path / "d").evaluate(tmp_path / "none")


def test_a_model_of_a_file_says_what_it_is_and_is_copied_as_it_is(tmp_path: Path) -> None:
    task = built("digits", "data.workers=0")
    card = Card("digits", weights="step-9, the best", metrics={"valid/accuracy": 0.5})
    write_exported(tmp_path / "a", task.pipeline(), numerics={"class": "fast", "bfloat16": "pairs"}, card=card)
    model = model_in(tmp_path / "a")
    told = repr(model)
    assert "Model of digits: classification" in told and "step-9, the best" in told and "valid/accuracy: 0.5" in told
    model.export(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()
