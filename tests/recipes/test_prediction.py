"""Predicting a file is what validation does with it: the same bits, in batches of 1, 3 and 8, in all kinds of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.recipes.building import built
from trainer import TrainerError, engine
from trainer.learner import DataSplits
from trainer.learner.device import device_for
from trainer.learner.inference import Softmax, finish, steps_from_json, steps_to_json
from trainer.learner.inference.model import About, Model

SMALL_NETWORK = "options.width=16", "options.blocks=[1, 1, 1, 1]"
NO_WORKERS = "data.workers=0", "data.cache_gb=0"


def loaded(recipe: str, *overrides: str) -> tuple[Any, DataSplits, Model]:
    """A recipe's task with fresh weights, its data and its model."""
    task = built(recipe, *NO_WORKERS, *overrides)
    config = task.config
    model = Model(task.pipeline(), About(recipe, "", ""), device=device_for(config), precision=config.train.precision)
    return task, task.data(), model


def validated(task: Any, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All predictions of a validation step, by role."""

    def step(batch: dict[str, Any]) -> dict[str, Any]:
        given = [one for one in task.valid_step(batch).values() if hasattr(one, "roles")]
        return {role: tensor for one in given for role, tensor in one.roles.items()}

    with engine.device(device_for(task.config)), engine.per_item():
        return {role: np.array(tensor.numpy()) for role, tensor in engine.trace(step)(batch).items()}


def same(one: Any, other: Any, *names: str) -> bool:
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in names)


def test_boxes_are_those_of_validation_in_every_batch():
    task, splits, model = loaded("detection", *SMALL_NETWORK, "options.pyramid_channels=16")
    batch = splits.valid.batch(0, 0)
    reader = splits.valid.dataset.dataset
    files = [reader.image_path(row) for row in range(8)]
    of_validation = validated(task, batch)
    for size in (1, 3, 8):
        for row, result in enumerate(model.predict(files, score_threshold=0.0, batch_size=size)):
            count = int((of_validation["classes"][row] >= 0).sum())
            assert len(result) == count > 0
            assert result.boxes.tobytes() == of_validation["boxes"][row][:count].tobytes()
            assert result.scores.tobytes() == of_validation["scores"][row][:count].tobytes()
            assert result.classes.tolist() == of_validation["classes"][row][:count].tolist()


def test_tiles_are_stitched_to_what_validation_counts():
    task, splits, model = loaded("segmentation", "options.widths=[8, 8]", "options.tile=256", "options.margin=32")
    tiles = splits.valid.dataset
    [size] = {tiles.places[row][0] for row in range(4)} | {0}
    rows = [row for row, (image, _, _) in enumerate(tiles.places) if image == 0]
    [result] = model.predict([tiles.dataset.image_path(0)], batch_size=3)
    for number in range(-(-len(rows) // 4)):
        batch = splits.valid.batch(0, number)
        scores = validated(task, batch)["scores"]
        for row, (image, top, left) in enumerate(tiles.places[4 * number : 4 * number + 4]):
            if image != 0:
                continue
            counts = np.argwhere(batch["mask"][row] != 255)
            mine = result.labels[counts[:, 0] + top, counts[:, 1] + left]
            assert np.array_equal(mine, scores[row].argmax(0)[counts[:, 0], counts[:, 1]])
    assert size == 0
    assert result.labels.shape == result.size


@pytest.mark.full
def test_instances_are_those_that_validation_measures():
    task, splits, model = loaded("nuclei", "options.widths=[8, 8]", "options.rare=1", "data.valid_batch_size=1")
    batch = splits.valid.batch(0, 0)
    maps = []

    def step(batch: dict[str, Any]) -> Any:
        from trainer.recipes.nuclei.task import normalized

        image = normalized(batch["image"])
        return task.averaged(image, task.network(image))

    with engine.device(device_for(task.config)), engine.per_item():
        maps = engine.trace(step)(batch).numpy()[0]
    segments, scores = task.figures.gather(maps, batch["mask"][0])
    result = model.predict(str(splits.valid.dataset.dataset.dataset.dataset.image_path(0)))
    height, width = result.size
    assert len(result) == len(scores) > 0
    order = np.argsort(-scores, kind="stable")
    assert result.scores.tobytes() == scores[order].tobytes()
    numbers = np.zeros(len(scores) + 1, np.int64)
    numbers[order + 1] = np.arange(1, len(scores) + 1)
    assert np.array_equal(result.segments, numbers[segments][:height, :width])


def test_pictures_are_those_of_validation(tmp_path):
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        (tmp_path / split).mkdir()
        for number in range(3):
            pair = rng.integers(0, 256, (40, 80, 3), np.uint8)
            Image.fromarray(pair).save(tmp_path / split / f"{number}.png")
    task, splits, model = loaded(
        "pix2pix", f"data.root={tmp_path}", "data.reader={name: pairs, images: '{split}'}", "options.filters=4",
        "options.depth=4", "data.transforms.valid=[{name: resize, size: 64}]",
    )  # fmt: skip
    made = validated(task, splits.valid.batch(0, 0))["predicted"][0] * 2 - 1
    source = np.ascontiguousarray(splits.valid.dataset.dataset[0]["image"])
    result = model.predict(source)
    assert result.image.shape == (64, 64, 3)
    right = np.round((made + 1) * np.float32(127.5)).transpose(1, 2, 0)
    assert np.abs(result.image - right).max() <= 1  # of the shares in which validation compares pictures


@pytest.fixture
def odd_files(tmp_path: Path) -> Path:
    """Photos of two classes in all modes that files come in."""
    rng = np.random.default_rng(1)
    for split in ("train", "val"):
        for name in ("hat", "shoe"):
            (tmp_path / split / name).mkdir(parents=True)
            base = Image.fromarray(rng.integers(0, 256, (90, 130, 3), np.uint8)).resize((260, 180))
            folder = tmp_path / split / name
            exif = Image.Exif()
            exif[0x0112] = 6
            base.save(folder / "1-rotated.jpg", exif=exif)
            base.quantize(32).save(folder / "2-palette.png")
            Image.fromarray(rng.integers(0, 65536, (70, 60), np.uint16)).save(folder / "3-sixteen.png")
            base.convert("CMYK").save(folder / "4-cmyk.jpg")
            base.resize((1300, 900)).save(folder / "5-large.jpg")  # decoded at a lower resolution
    return tmp_path


def test_odd_files_give_the_bits_of_validation(odd_files):
    task, splits, model = loaded("clothes", *SMALL_NETWORK, f"data.root={odd_files}", "data.valid_batch_size=10")
    logits = validated(task, splits.valid.batch(0, 0))["logits"]
    files = [splits.valid.dataset.dataset.source(row) for row in range(10)]
    for size in (1, 3, 8):
        for row, result in enumerate(model.predict(files, batch_size=size)):
            scores = finish(model.pipeline, {"logits": logits[row : row + 1]}, None)["scores"]  # type: ignore[arg-type]
            assert result.scores.tobytes() == scores.tobytes(), files[row]
    assert model.predict(files[0]).size == (260, 180)  # turned as EXIF says


def test_digits_of_files_are_classified():
    task, splits, model = loaded("digits")
    logits = validated(task, splits.valid.batch(0, 0))["logits"]
    image = np.repeat(splits.valid.dataset[0]["image"], 3, axis=2)
    [scores] = Softmax()({"logits": logits[:1]}, None)["scores"][None]  # type: ignore[arg-type]
    assert model.predict(image).scores.tobytes() == scores.tobytes()


@pytest.mark.parametrize("recipe", ["digits", "clothes", "detection", "segmentation", "nuclei", "pix2pix"])
def test_the_steps_of_every_recipe_survive_json(recipe):
    pipeline = built(recipe, *NO_WORKERS, *(["options.rare=1"] if recipe == "nuclei" else [])).pipeline()
    for steps in (pipeline.prepare, pipeline.finish):
        assert steps_from_json(json.loads(json.dumps(steps_to_json(steps))), where="model") == steps


def test_a_random_transform_of_validation_is_refused():
    task = built("clothes", *NO_WORKERS, "data.transforms.valid=[{name: resize, size: 80}, {name: horizontal_flip}]")
    with pytest.raises(TrainerError, match="a transform of validation is random") as raised:
        task.pipeline()
    assert raised.value.where == "data.transforms.valid"
