"""The nuclei recipe: pictures made alike, mirror images of offsets, samples, custom annotations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.recipes.building import built
from trainer import engine
from trainer.configs import load
from trainer.datasets import ArrayDataset
from trainer.datasets.gray import stretched
from trainer.datasets.readers import Opening
from trainer.learner import Learner
from trainer.learner.inference.grouping import PER_CLASS
from trainer.recipes.nuclei.appearance import balanced
from trainer.recipes.nuclei.task import Nuclei, normalized

SMALL = ("options.widths=[4, 6]", "options.rare=1", "data.workers=0")


pytestmark = pytest.mark.usefixtures("on_the_reference_device")


def test_pictures_of_both_kinds_are_bright_on_dark_over_the_whole_range() -> None:
    generator = np.random.default_rng(0)
    dim = generator.integers(5, 12, (50, 50, 1)).astype(np.uint8)
    dim[20:30, 20:30] += 30
    stained = 240 - dim
    for image in (dim, stained):
        result = stretched(image)
        assert result.dtype == np.uint8 and result.min() == 0 and result.max() == 255
        assert result[20:30, 20:30].min() > 150 > result[:15].max()
    np.testing.assert_array_equal(stretched(dim), stretched(stained))
    assert not stretched(np.full((4, 4, 1), 7, np.uint8)).any()


def test_pictures_of_the_rarer_look_are_shown_more_often_and_it_is_told_how_far_looking_at_them_is() -> None:
    dark, bright = np.zeros((4, 4, 4, 1), np.uint8), np.full((4, 4, 4, 1), 200, np.uint8)
    for images, expected in (
        ([*dark, *bright[:2]], [0, 1, 2, 3, 4, 4, 4, 5, 5, 5]),
        ([*bright, *dark[:1]], [0, 1, 2, 3, 4, 4, 4]),
        ([*dark], [0, 1, 2, 3]),
    ):
        told: list[tuple[int, int]] = []
        opening = Opening(progress=lambda done, total, told=told: told.append((done, total)))
        assert balanced(ArrayDataset({"image": np.stack(images)}), 3, opening).indices.tolist() == expected
        assert told == [(number + 1, len(images)) for number in range(len(images))]


def test_faint_rims_show_in_the_network_s_second_picture() -> None:
    gray = np.array([[[[0, 4, 64, 255]]]], np.uint8)
    both = normalized(engine.asarray(gray)).numpy()
    assert both.shape == (1, 2, 1, 4) and both.dtype == np.float32
    share = gray[0, 0, 0] / 255.0
    np.testing.assert_allclose(both[0, :, 0], [4 * share - 1, 4 * np.sqrt(share) - 2], atol=1e-6)


def test_a_turned_or_mirrored_image_is_measured_as_the_picture() -> None:
    """Offsets along a mirrored axis change their sign; those of a picture whose rows became columns are exchanged."""
    task = built("nuclei", *SMALL)
    image = engine.asarray(np.random.default_rng(0).normal(size=(1, 2, 16, 32)).astype(np.float32))
    maps = task.averaged(image, task.network(image)).numpy()
    for axes, signs in (((2,), (1, 1, -1, 1)), ((3,), (1, 1, 1, -1)), ((2, 3), (1, 1, -1, -1))):
        other = engine.flip(image, axis=axes)
        mirrored = np.flip(task.averaged(other, task.network(other)).numpy(), axes)
        np.testing.assert_allclose(mirrored * np.array(signs)[None, :, None, None], maps, atol=1e-5)
    other = engine.permute_dims(image, (0, 1, 3, 2))
    turned = task.averaged(other, task.network(other)).numpy().swapaxes(2, 3)
    np.testing.assert_allclose(turned[:, [0, 1, 3, 2]], maps, atol=1e-5)


def test_perfect_maps_cost_little_and_what_does_not_count_costs_nothing() -> None:
    task = built("nuclei", *SMALL)
    segments = np.zeros((2, 32, 32), np.int32)
    segments[:, 4:12, 6:15], segments[:, 20:25, 15:22], segments[:, 28:] = PER_CLASS, PER_CLASS + 1, 255
    rows = {"mask": engine.asarray(segments), "weight": engine.asarray(np.array([1, 0], np.float32))}
    perfect = np.zeros((2, 4, 32, 32), np.float32)
    perfect[:, 0] = np.where(segments >= PER_CLASS, 20, -20)
    for value in (PER_CLASS, PER_CLASS + 1):
        _, at_row, at_column = np.nonzero(segments == value)
        middle = at_row.mean(), at_column.mean()
        perfect[:, 2][segments == value] = (middle[0] - at_row) / 8
        perfect[:, 3][segments == value] = (middle[1] - at_column) / 8
    perfect[1], perfect[:, :, 28:] = 50, -50
    losses = {name: mean.value.item() for name, mean in task.losses(engine.asarray(perfect), rows).items()}
    assert losses["foreground"] < 1e-6 and losses["offsets"] < 1e-6 and losses["dice"] < 0.01


def test_samples_show_what_was_found_and_what_is_there() -> None:
    segments = np.zeros((1, 32, 32), np.int32)
    segments[0, 4:12, 6:15], segments[0, 28:] = PER_CLASS, 255
    image = np.random.default_rng(0).integers(0, 256, (1, 1, 32, 32), dtype=np.uint8)
    found, right = built("nuclei", *SMALL).samples({"image": engine.asarray(image), "mask": engine.asarray(segments)})
    assert found.image.shape == (28, 32) and "predicted" in found.caption
    assert right.caption == "1 in the ground truth" and len(right.annotations["masks"]) == 1


@pytest.mark.full
def test_annotations_of_ones_own_are_trained_on(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        (tmp_path / "images" / split).mkdir(parents=True)
        (tmp_path / "annotations").mkdir(exist_ok=True)
        annotations = []
        for number in range(2):
            pixels = np.zeros((40, 50 + 16 * number, 3), np.uint8)  # padded to the largest for validation
            pixels[8:20, 10:24] = 180
            Image.fromarray(pixels).save(tmp_path / f"images/{split}/{number}.png")
            outline = [10, 8, 24, 8, 24, 20, 10, 20]
            annotations.append({
                "id": number + 1, "image_id": number, "category_id": 1 + number, "bbox": [10, 8, 14, 12], "area": 168,
                "iscrowd": 0, "segmentation": [outline],
            })  # fmt: skip
        document = {
            "images": [{"id": n, "file_name": f"{n}.png", "height": 40, "width": 50 + 16 * n} for n in range(2)],
            "annotations": annotations,
            "categories": [{"id": 1, "name": "round"}, {"id": 2, "name": "long"}],
        }
        (tmp_path / f"annotations/instances_{split}.json").write_text(json.dumps(document))
    own = (f"data.root={tmp_path}", "train.epochs=1", "data.batch_size=2")
    own = (
        *own,
        "data.transforms.train=[{name: random_scaled_crop, size: 32}]",
        "device=reference",
        "numerics.class=exact",
    )
    loaded = load("nuclei", (*SMALL, *own))
    outcome = Learner(Nuclei, loaded.config, loaded.options).run().check()
    assert 0 <= outcome.metrics["test/objects/AP"] <= 1 and outcome.metrics["test/iou"] >= 0
