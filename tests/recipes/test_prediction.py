"""Predicting a file is what validation does with it: the same bits, in batches of 1, 3 and 8, in all kinds of files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.recipes.building import SMALL, built
from tests.recipes.odd_files import SIZES, write_data
from trainer import TrainerError, engine
from trainer.datasets import Loader
from trainer.learner.device import device_for
from trainer.learner.inference import finish, steps_from_json, steps_to_json
from trainer.learner.inference.model import About, Model

NO_WORKERS = "data.workers=0", "data.cache_gb=0"
OF_OBJECTS = ("detections", "instances")

Arrays = Mapping[str, np.ndarray]


def validated(task: Any, loader: Loader) -> Iterator[tuple[Mapping[str, np.ndarray], Arrays]]:
    """Each batch of validation, and all that its step hands to metrics, by role."""

    def step(batch: dict[str, Any]) -> dict[str, Any]:
        returned = [getattr(one, "given", one) for one in task.valid_step(batch).values()]
        given = [one for one in returned if hasattr(one, "roles")]
        return {role: tensor for one in given for role, tensor in one.roles.items()}

    with engine.device(device_for(task.config)), engine.per_item():
        program = engine.trace(step)
        for number in range(loader.steps_per_epoch):
            batch = loader.batch(0, number)
            yield batch, {role: np.array(tensor.numpy()) for role, tensor in program(batch).items()}


def of_rows(task: Any, loader: Loader) -> Iterator[Arrays]:
    """What validation computes of each picture, as results hold it."""
    kind = task.pipeline().kind
    for batch, roles in validated(task, loader):
        for row in np.flatnonzero(batch["weight"]).tolist():
            if kind == "classification":
                yield finish(task.pipeline(), {"logits": roles["logits"][row : row + 1]}, None)  # type: ignore[arg-type]
            elif kind == "detections":
                holds = roles["classes"][row] >= 0
                yield {name: roles[name][row][holds] for name in ("boxes", "scores", "classes")}
            elif kind == "instances":
                segments, scores = task.figures.group(roles["maps"][row], roles["segments"][row])
                order = np.argsort(-scores, kind="stable")
                numbers = np.zeros(len(scores) + 1, np.int32)
                numbers[order + 1] = np.arange(1, len(scores) + 1)
                yield {"segments": numbers[segments], "scores": scores[order]}
            elif kind == "image":  # compared as 0 to 1
                yield {"image": np.round(roles["predicted"][row] * np.float32(255)).astype(np.uint8).transpose(1, 2, 0)}


def of_windows(task: Any, loader: Loader) -> Iterator[Arrays]:
    """The labels of whole pictures, of the pixels that each window is measured by."""
    tiles = loader.dataset
    labels = [np.full(size, 255, np.uint8) for size in SIZES.values()]
    places = iter(tiles.places)
    for batch, roles in validated(task, loader):
        for row in np.flatnonzero(batch["weight"]).tolist():
            number, window = next(places)
            rows, columns = np.nonzero(batch["mask"][row] != 255)
            whole = labels[number][window.top :, window.left :]
            assert (whole[rows, columns] == 255).all()  # no pixel is measured twice
            whole[rows, columns] = roles["scores"][row].argmax(0)[rows, columns]
    yield from ({"labels": one} for one in labels)


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=[] if name == "digits" else [pytest.mark.full]) for name in SMALL]
)
def test_a_file_has_the_bits_of_validation_in_batches_of_every_size(recipe: str, tmp_path: Path) -> None:
    files, overrides = write_data(recipe, tmp_path)
    task = built(recipe, *NO_WORKERS, *SMALL[recipe], *overrides)
    loader = task.data().valid
    config = task.config
    model = Model(task.pipeline(), About(recipe, "", ""), device=device_for(config), precision=config.train.precision)
    expected = list((of_windows if model.kind == "semantic" else of_rows)(task, loader))
    threshold = 0.0 if model.kind in OF_OBJECTS else None
    for batch_size in (1, 3, 8):
        results = model.predict(files, batch_size=batch_size, score_threshold=threshold)
        for file, result, arrays in zip(files, results, expected, strict=True):
            height, width = SIZES[file.name]
            assert result.size == (height, width)
            for name, values in arrays.items():
                found = getattr(result, name)
                right = values[:height, :width] if name == "segments" else values  # without its border
                assert found.tobytes() == right.astype(found.dtype).tobytes(), (file.name, name, batch_size)
    if model.kind in OF_OBJECTS:
        assert any(len(arrays["scores"]) for arrays in expected)


@pytest.mark.parametrize("recipe", SMALL)
def test_the_steps_of_every_recipe_survive_json(recipe: str) -> None:
    pipeline = built(recipe, *NO_WORKERS, *(["options.rare=1"] if recipe == "nuclei" else [])).pipeline()
    for steps in (pipeline.prepare, pipeline.finish):
        assert steps_from_json(json.loads(json.dumps(steps_to_json(steps))), where="model") == steps


def test_a_random_transform_of_validation_is_refused() -> None:
    task = built("clothes", *NO_WORKERS, "data.transforms.valid=[{name: resize, size: 80}, {name: horizontal_flip}]")
    with pytest.raises(TrainerError, match="a transform of validation is random") as raised:
        task.pipeline()
    assert raised.value.where == "data.transforms.valid"


def test_a_transform_of_validation_that_is_code_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    code = "    def __call__(self, item, draws):\n        return item\n"
    file.write_text(f"from trainer.datasets import Transform\n\nclass Same(Transform):\n{code}")
    task = built("clothes", *NO_WORKERS, f"data.transforms.valid=[{{name: resize, size: 80}}, {{name: '{file}:Same'}}]")
    with pytest.raises(TrainerError, match="a transform of validation is custom code") as raised:
        task.pipeline()
    assert raised.value.where == f"data.transforms.valid: {file}:3"
