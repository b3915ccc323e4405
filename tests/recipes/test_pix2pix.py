"""The pix2pix recipe: which pairs it cuts, custom data, and that it learns and shows what."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainer import engine
from trainer.configs import load
from trainer.datasets.readers import Opening
from trainer.learner import Learner
from trainer.recipes.pix2pix.map_tiles import usable_corners
from trainer.rundir import Event, MetricEvent

PUBLISHED_PAIRS = Path(__file__).resolve().parents[3] / "shared" / "data" / "aerial_pairs"
SMALL = ["options.filters=2", "options.depth=5", "data.workers=0", "autotune.mode=off"]
TRANSFORMS = {"train": [{"name": "resize", "size": 36}, {"name": "random_crop", "size": 32}],
              "valid": [{"name": "resize", "size": 32}]}  # fmt: skip


def make_task(*overrides: str) -> Any:
    loaded = load("pix2pix", overrides)
    return loaded.task.import_module().Pix2Pix(loaded.config, loaded.options)


def test_pairs_are_cut_where_the_published_ones_were_and_show_the_same() -> None:
    if not PUBLISHED_PAIRS.exists():
        pytest.skip(f"{PUBLISHED_PAIRS} is not there")
    with (PUBLISHED_PAIRS / "origin.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    splits = {"train": "train", "valid": "val", "test": "test"}
    loaders = make_task("data.transforms.train=[]", "data.workers=0").data().all()
    for loader, (split, word) in zip(loaders, splits.items(), strict=True):
        expected = [row for row in rows if row["split"] == word]
        sources = [loader.dataset.source(index) for index in range(len(loader.dataset))]
        assert [Path(source).name for source in sources] == [
            f"{row['aerial_image']}.jpg at x {row['x']}, y {row['y']}" for row in expected
        ], split
        for index in (0, len(expected) // 2, len(expected) - 1):
            pair = np.asarray(Image.open(PUBLISHED_PAIRS / word / expected[index]["file"])).astype(int)
            item = loader.dataset[index]
            assert np.abs(item["target"] - pair[:, :256]).mean() < 4, "of a photo only JPEG's loss is gone"
            near = np.abs(item["image"] - pair[:, 256:]).max(axis=2) < 40
            assert near.mean() > 0.9, "a map has the published colors, but for JPEG's loss at edges"


def test_cutting_tells_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    task = make_task("data.workers=0")
    task.opening = Opening(lambda done, total: told.append((done, total)))
    task.data()
    assert told == [(done, 72) for done in range(1, 73)]


def test_squares_that_show_one_class_or_nothing_are_left_out() -> None:
    mask = np.zeros((520, 800), np.uint8)
    mask[:, :128] = 1  # half of the first column of squares; the third is all of class 0
    mask[:256, 256:384] = 2
    mask[256:512, 256:384] = 2
    mask[256:300, 256:290] = 255  # 2.3 %
    assert usable_corners(mask) == [(0, 0), (0, 256), (256, 0), (256, 256)]
    mask[256:356, 256:290] = 255  # 5.2 %
    assert usable_corners(mask) == [(0, 0), (0, 256), (256, 0)]


def pictures(folder: Path, sizes: dict[str, int], *, beside: bool) -> None:
    """Random bright pairs of 40x40, side by side or in two folders."""
    random = np.random.default_rng(0)
    for split, count in sizes.items():
        for number in range(count):
            left, right = random.integers(128, 256, (2, 40, 40, 3), dtype=np.uint8)
            parts = (
                {split: np.concatenate([left, right], 1)} if beside else {f"in/{split}": left, f"out/{split}": right}
            )
            for where, pixels in parts.items():
                (folder / where).mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(folder / where / f"{number}.png")


def test_side_by_side_pictures_and_two_folders_of_ones_own(tmp_path: Path, on_the_reference_device: None) -> None:
    sizes = {"train": 3, "val": 2}
    pictures(tmp_path / "one", sizes, beside=True)
    pictures(tmp_path / "two", sizes, beside=False)
    one = ["data.reader={name: pairs, images: '{split}', direction: right_to_left}"]
    two = ["data.reader={name: pairs, images: 'in/{split}', targets: 'out/{split}'}"]
    transforms = f"data.transforms={json.dumps(TRANSFORMS)}"
    side = make_task(*SMALL, transforms, f"data.root={tmp_path / 'one'}", *one).data().train.dataset
    apart = make_task(*SMALL, transforms, f"data.root={tmp_path / 'two'}", *two).data().train.dataset
    assert len(side) == len(apart) == 3
    for index in range(3):
        np.testing.assert_array_equal(side[index]["image"], apart[index]["target"], "the left half is the target")
        np.testing.assert_array_equal(side[index]["target"], apart[index]["image"])


@pytest.mark.full
def test_a_few_steps_bring_pictures_nearer_and_show_them(tmp_path: Path) -> None:
    pictures(tmp_path, {"train": 2, "val": 2, "test": 2}, beside=True)
    steps = ["train.epochs=null", "train.steps=40", "train.log_every_steps=10", "data.valid_batch_size=2",
             "optimizers.generator.learning_rate=0.005"]  # fmt: skip
    transforms = f"data.transforms={json.dumps({**TRANSFORMS, 'train': TRANSFORMS['valid']})}"
    own = [f"data.root={tmp_path}", "data.reader={name: pairs, images: '{split}', direction: right_to_left}"]
    loaded = load("pix2pix", [*SMALL, *steps, transforms, *own, "options.dropout=0"])
    distances: list[float] = []

    def sink(event: Event) -> None:
        if isinstance(event, MetricEvent) and event.split == "train":
            distances.append(event.values["l1"])

    learner = Learner(loaded.task.import_module().Pix2Pix, loaded.config, loaded.options, sink=sink)
    outcome = learner.run()
    outcome.check()
    assert distances[-1] < 0.7 * distances[0]
    assert {"test/l1", "test/ssim", "test/psnr"} <= set(outcome.metrics)
    assert learner.training is not None and learner.training.splits.valid is not None
    batch = {name: engine.asarray(values) for name, values in learner.training.splits.valid.batch(0, 0).items()}
    shown = list(learner.task.samples(batch))
    assert [sample.image.shape for sample in shown] == [(32, 96, 3)] * 2
    np.testing.assert_array_equal(shown[0].image[:, :32], batch["image"].numpy()[0].transpose(1, 2, 0))
    np.testing.assert_array_equal(shown[0].image[:, 64:], batch["target"].numpy()[0].transpose(1, 2, 0))
