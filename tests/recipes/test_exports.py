"""Every recipe that predicts, exported: the same bits and metrics, and no recipe's code is needed."""

from __future__ import annotations

import hashlib
import importlib
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import trainer
from tests.recipes.building import SMALL, built
from tests.recipes.odd_files import write_data
from trainer import TrainerError
from trainer.learner.device import device_for
from trainer.learner.exported import Card, write_exported
from trainer.learner.exported.model import model_in
from trainer.learner.inference.model import About, Model
from trainer.learner.inference.restoring import uses_averages

NO_WORKERS = ("data.workers=0", "data.cache_gb=0")
BRIEF = (
    "train.epochs=1", "data.batch_size=2", "data.valid_batch_size=2", "validate={every_epochs: 1, worst_items: 2}",
    "autotune.mode='off'", "schedule={name: constant}",
)  # fmt: skip
"""A training of an epoch, validated at its end."""

ELSEWHERE = """
import sys
sys.modules["trainer.recipes"] = None  # importing it fails
sys.path.append(sys.argv[1])
import json
import numpy as np
from tests.recipes.test_exports import digests
import trainer
model = trainer.load_model(sys.argv[2])
files = sys.argv[3:]
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


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=[] if name == "digits" else [pytest.mark.full]) for name in SMALL]
)
def test_an_exported_recipe_predicts_the_same_bits_without_its_code(
    recipe: str, tmp_path: Path, repository: Path
) -> None:
    """In files of all modes and in batches of 1, 3 and 8."""
    files, overrides = write_data(recipe, tmp_path / "data")
    task = built(recipe, *SMALL[recipe], *overrides, *NO_WORKERS)
    pipeline, config = task.pipeline(), task.config
    write_exported(tmp_path / "m.model", pipeline, numerics=numerics_of(config), card=Card(recipe))
    model = Model(pipeline, About(recipe, "", ""), device=device_for(config), precision=config.train.precision)
    expected = digests(model.predict(files, batch_size=3))
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(repository), str(tmp_path / "m.model"), *map(str, files)],
        capture_output=True, text=True, cwd=repository, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [expected] * 3
    assert len(set(expected)) > 1


@pytest.mark.full
@pytest.mark.parametrize("recipe", SMALL)
def test_a_run_and_its_export_are_evaluated_with_the_metrics_of_validation(recipe: str, tmp_path: Path) -> None:
    """On the run's data and on a copy of it; of tiles, masks of objects and pictures, too. The file has no losses."""
    settings = [*SMALL[recipe], *write_data(recipe, tmp_path / "data")[1], *NO_WORKERS, *BRIEF]
    result = trainer.run(recipe, run_dir=tmp_path / "run", show=False, **overrides_from(settings))
    weights = "valid/ema/" if uses_averages(result.task.config) else "valid/"
    write_data(recipe, tmp_path / "copy")
    model = trainer.load_model(tmp_path / "run")
    found = model.evaluate()
    expected = {name: result.metrics[f"{weights}{name}"] for name in found.metrics}
    assert found.metrics and repr(found.metrics) == repr(expected)  # with NaN where there is nothing to measure
    assert found.items == len(result.task.data().valid.dataset)
    assert repr(model.evaluate(tmp_path / "copy").metrics) == repr(expected)
    exported = trainer.load_model(model.export(tmp_path / "m.model"))
    of_file = exported.evaluate(tmp_path / "copy")
    module = importlib.import_module(f"trainer.recipes.{recipe}.options")
    losses = set(module.DECLARATION.valid.metrics)
    assert repr(of_file.metrics) == repr({name: value for name, value in expected.items() if name not in losses})
    assert of_file.metrics and of_file.items == found.items
    assert [one.source for one in of_file.worst()] and all(one.files[0].exists() for one in of_file.worst())


def overrides_from(lines: Iterable[str]) -> dict[str, Any]:
    """Lines of the command as keyword arguments of `trainer.run`."""
    return {key: yaml.safe_load(value) for key, _, value in (line.partition("=") for line in lines)}


def numerics_of(config: Any) -> dict[str, str]:
    """As an export writes them."""
    written: dict[str, str] = config.numerics.model_dump(mode="json", by_alias=True)
    return written


def test_missing_data_is_told(tmp_path: Path) -> None:
    task = built("digits", *NO_WORKERS)
    write_exported(tmp_path / "d", task.pipeline(), numerics=numerics_of(task.config), card=Card("digits"))
    with pytest.raises(TrainerError, match="no data given"):
        model_in(tmp_path / "d").evaluate()
    with pytest.raises(TrainerError, match="no such data folder"):
        model_in(tmp_path / "d").evaluate(tmp_path / "none")
    write_data("segmentation", tmp_path / "land")
    with pytest.raises(TrainerError, match="the task needs the fields label"):
        model_in(tmp_path / "d").evaluate(tmp_path / "land")


def test_a_model_of_a_file_says_what_it_is_and_is_copied_as_it_is(tmp_path: Path) -> None:
    task = built("digits", "data.workers=0")
    card = Card("digits", weights="step-9, the best", metrics={"valid/accuracy": 0.5})
    write_exported(tmp_path / "a", task.pipeline(), numerics={"class": "fast", "bfloat16": "pairs"}, card=card)
    model = model_in(tmp_path / "a")
    told = repr(model)
    assert "Model of digits: classification" in told and "step-9, the best" in told and "valid/accuracy: 0.5" in told
    model.export(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()
