"""The segmentation recipe: its splits, what is measured of mirror images, its samples, a user's own folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.recipes.building import built
from trainer import engine
from trainer.configs import load
from trainer.learner import Learner
from trainer.recipes.segmentation.task import Segmentation

SMALL = ("options.widths=[4, 6]", "options.tile=64", "options.margin=8", "data.workers=0")


pytestmark = pytest.mark.usefixtures("on_the_reference_device")


def batch(classes: int = 5) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    rows = {
        "image": generator.integers(0, 256, (2, 3, 32, 48), dtype=np.uint8),
        "mask": generator.integers(0, classes, (2, 32, 48), dtype=np.uint8),
        "weight": np.array([1, 0], np.float32),
    }
    rows["mask"][0, :9] = 255
    return {name: engine.asarray(values) for name, values in rows.items()}


def test_every_pixel_of_the_test_split_is_measured_once() -> None:
    loaded = load("segmentation", ("data.workers=0", "data.valid_batch_size=16"))
    splits = Segmentation(loaded.config, loaded.options).data()
    assert splits.test is not None
    labeled = sum(int((rows["mask"][rows["weight"] > 0] != 255).sum()) for rows in splits.test.epoch(0))  # type: ignore[union-attr]
    folder = Path(loaded.config.data.root or "") / "masks" / "test"
    assert labeled == sum(int((np.asarray(Image.open(file)) != 255).sum()) for file in folder.glob("*.png"))


def test_a_mirror_image_is_measured_as_the_picture() -> None:
    """The mean over the four of them is the same whichever of them comes in."""
    task, image = (
        built("segmentation", *SMALL),
        engine.asarray(np.random.default_rng(0).normal(size=(1, 3, 32, 64)).astype(np.float32)),
    )
    scores = task.scores(image, task.network(image)).numpy()
    np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)
    for axes in ((2,), (3,), (2, 3)):
        other = engine.flip(image, axis=axes)
        mirrored = np.flip(task.scores(other, task.network(other)).numpy(), axes)
        np.testing.assert_allclose(mirrored, scores, atol=1e-5)


def test_rows_that_fill_a_batch_and_ignored_pixels_leave_the_loss_alone() -> None:
    task, rows = built("segmentation", *SMALL), batch()
    logits = engine.asarray(np.random.default_rng(1).normal(size=(2, 5, 8, 12)).astype(np.float32))
    losses = {name: float(mean.value.item()) for name, mean in task.losses(logits, rows).items()}
    changed = logits.numpy().copy()
    changed[1] = 9
    changed[0, :, :2] = -7  # rows 0 to 8 of the mask don't count: of the 4 by 4 cells' middles, those of rows 2 and 6
    others = {name: float(mean.value.item()) for name, mean in task.losses(engine.asarray(changed), rows).items()}
    assert others == pytest.approx(losses) and losses["loss"] == pytest.approx(losses["cross_entropy"] + losses["dice"])


def test_samples_show_what_was_found_and_what_is_right() -> None:
    samples = list(built("segmentation", *SMALL).samples(batch()))
    assert [sample.name for sample in samples] == ["0-predicted", "0-target", "1-predicted", "1-target"]
    for sample in samples:
        assert sample.image.shape == (32, 48, 3) and sample.mask.shape == (32, 48) and len(sample.class_names) == 5
    np.testing.assert_array_equal(samples[1].mask, batch()["mask"].numpy()[0])


def test_folders_of_ones_own_are_trained_on(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        for number in range(2):
            for kind in ("images", "masks"):
                (tmp_path / kind / split).mkdir(parents=True, exist_ok=True)
            mask = generator.integers(0, 2, (40 + 9 * number, 70), dtype=np.uint8)
            Image.fromarray(np.repeat(mask[..., None] * 200, 3, 2)).save(tmp_path / f"images/{split}/{number}.jpg")
            Image.fromarray(mask).save(tmp_path / f"masks/{split}/{number}.png")
    own = (f"data.root={tmp_path}", "data.reader.classes=[soil, crop]", "train.epochs=1", "data.batch_size=2")
    loaded = load("segmentation", (*SMALL, *own, "device=reference", "numerics.class=exact"))
    outcome = Learner(Segmentation, loaded.config, loaded.options).run().check()
    assert 0 <= outcome.metrics["test/ema/mean_iou"] <= 1
