"""The clothes recipe: what it trains on and what it tests with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.configs import RecipeIndex, load
from trainer.learner import Plan
from trainer.tui.errors import CLASSIFIED

pytestmark = pytest.mark.usefixtures("on_the_reference_device")


@pytest.fixture(scope="module")
def task() -> Any:
    loaded = load("clothes", ["options.width=2", "options.blocks=[1, 1]", "data.workers=0", "data.batch_size=4"])
    made = loaded.task.import_module().Clothes(loaded.config, loaded.options)
    made.splits = made.data()
    made.plan = Plan(10, 10)
    made.build()
    return made


def test_the_splits_are_those_of_the_data_set(task: Any) -> None:
    splits = task.splits
    assert [len(part.dataset) for part in (splits.train, splits.valid, splits.test)] == [3068, 341, 372]
    folders = sorted(path.name for path in (RecipeIndex.built_in().folder("clothes") / "data" / "train").iterdir())
    assert list(task.class_names) == folders and len(folders) == 10
    batch = splits.train.batch(0, 0)
    assert batch["image"].shape == (4, 3, 80, 80) and batch["labels_hot"].shape == (4, 10)
    np.testing.assert_allclose(batch["labels_hot"].sum(1), 1, rtol=1e-6)
    assert splits.test.batch(0, 0)["image"].shape[2:] == batch["image"].shape[2:]


def test_a_photo_and_its_mirror_image_are_called_the_same(task: Any) -> None:
    task.network.eval()
    photos = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    mirrored = np.ascontiguousarray(photos[..., ::-1])
    logits = [task.classify(engine.asarray(pictures)).numpy() for pictures in (photos, mirrored)]
    np.testing.assert_allclose(logits[0], logits[1], rtol=1e-5, atol=1e-6)
    assert logits[0].shape == (3, 10) and np.ptp(logits[0]) > 0


def test_photos_of_every_kind_are_shown(task: Any) -> None:
    task.network.eval()
    batch = {name: engine.asarray(values) for name, values in task.splits.valid.batch(0, 0).items()}
    samples = task.samples(batch)
    labels = batch["label"].numpy()
    assert len(samples) == 2 * 10 and samples[0].image.shape == (80, 80, 3)
    captions = [CLASSIFIED.fullmatch(sample.caption) for sample in samples]
    true = [found["truth"] or found["prediction"] for found in captions if found]
    assert true[::2] == true[1::2] == list(task.class_names)
    assert np.array_equal(samples[-1].image, batch["image"].numpy()[labels == 9][1].transpose(1, 2, 0))
