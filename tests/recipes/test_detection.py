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
    assert batch["boxes"].shape == (8, 32, 4) and batch["image"].shape == (8, 3, 256, 256)


def test_boxes_go_back_to_the_picture_before_it_was_resized(folder: Path) -> None:
    task = made(folder)
    valid = task.data().valid
    batch = {name: engine.asarray(values) for name, values in valid.batch(0, 0).items()}
    assert batch["image"].shape[2:] == (288, 384)
    boxes = (batch["boxes"] * task.original_scale(batch)).numpy()
    np.testing.assert_allclose(boxes[:2, 0], [[20, 30, 80, 70], [21, 30, 81, 70]], atol=1e-3)
