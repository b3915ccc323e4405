"""The recipe detection: classes come from the data, figures are those of the pictures before they were resized."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainer import engine
from trainer.configs import load
from trainer.learner import Plan, Task

CATEGORIES = [{"id": 7, "name": "bolt"}, {"id": 3, "name": "nut"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's own COCO data: two classes, pictures of another size than BCCD's, no test split."""
    (tmp_path / "images").mkdir()
    (tmp_path / "annotations").mkdir()
    for split in ("train", "val"):
        pictures, objects = [], []
        for number in range(2):
            name = f"{split}{number}.png"
            Image.fromarray(np.full((120, 200, 3), 90, np.uint8)).save(tmp_path / "images" / name)
            pictures.append({"id": number, "file_name": name, "width": 200, "height": 120})
            box = [20 + number, 30, 60, 40]
            objects.append({"id": number, "image_id": number, "category_id": 7, "bbox": box, "area": 2400})
        told = {"images": pictures, "annotations": objects, "categories": CATEGORIES}
        (tmp_path / "annotations" / f"instances_{split}.json").write_text(json.dumps(told))
    return tmp_path


def made(folder: Path, *overrides: str) -> Any:
    loaded = load("detection", [f"data.root={folder}", "data.workers=0", *overrides])
    task_class: type[Task] = getattr(loaded.task.import_module(), loaded.task.class_name)
    return task_class(loaded.config, loaded.options)


def test_classes_are_those_of_the_users_own_data(folder: Path) -> None:
    task = made(folder)
    splits = task.data()
    assert splits.test is None and task.class_names == ("nut", "bolt")
    task.plan = Plan(1, 10)
    task.build()
    assert task.network.head.class_logits.out_channels == 2
    batch = splits.train.batch(0, 0)
    assert batch["boxes"].shape == (8, 8, 4) and batch["image"].shape == (8, 3, 256, 256)


@pytest.mark.parametrize(
    "transforms",
    [
        None,
        "[{name: resize, size: [96, 64]}]",
        "[{name: pad, multiple: 32, to_largest: true}, {name: vertical_flip, probability: 1}]",
    ],
)
def test_boxes_are_measured_in_the_image_as_it_was(folder: Path, transforms: str | None) -> None:
    task = made(folder, *([] if transforms is None else [f"data.transforms.valid={transforms}"]))
    with engine.device("reference"):
        batch = {name: engine.asarray(values) for name, values in task.data().valid.batch(0, 0).items()}
        if transforms is None:
            assert batch["image"].shape[2:] == (288, 384)
            np.testing.assert_allclose(  # 200x120 becomes 384x230, 29 below the upper edge
                batch["boxes"].numpy()[0, 0], [38.4, 29 + 57.6, 153.6, 29 + 134.4], atol=0.5
            )
        task.plan = Plan(1, 10)
        task.build()
        found = task.valid_step(batch)["objects"]["true_boxes"].numpy()
    np.testing.assert_allclose(found[:2, 0], [[20, 30, 80, 70], [21, 30, 81, 70]], atol=1e-3)


def test_room_for_boxes_is_that_of_the_data_set(folder: Path) -> None:
    path = folder / "annotations/instances_val.json"
    content = json.loads(path.read_text())
    content["annotations"] += [{**content["annotations"][0], "id": 10 + number} for number in range(44)]
    path.write_text(json.dumps(content))
    splits = made(folder).data()
    assert splits.train.batch(0, 0)["boxes"].shape[1] == splits.valid.batch(0, 0)["boxes"].shape[1] == 48
    assert splits.train.room_for_objects == 48
