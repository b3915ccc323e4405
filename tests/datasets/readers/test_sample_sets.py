"""Real data sets: the counts that their authors give, and every item of some of them."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.configs import config_from
from trainer.datasets import check_item
from trainer.datasets.readers import read_splits

AERIAL = ("Water", "Land", "Road", "Building", "Vegetation")

SETS = {
    "bccd": ({"name": "coco", "annotations": "annotations/instances_{split}.json"},
             {"train": 205, "valid": 87, "test": 72}),
    "nuclei": ({"name": "coco", "images": "images/{split}", "annotations": "annotations/instances_{split}.json",
                "masks": True}, {"train": 251, "valid": 51, "test": 51}),
    "coco_subset": ({"name": "coco", "images": "images/{split}", "annotations": "annotations/instances_{split}.json",
                     "masks": True}, {"train": 36, "valid": 49}),
    "aerial": ({"name": "segmentation", "images": "images/{split}", "masks": "masks/{split}", "classes": AERIAL},
               {"train": 56, "valid": 8, "test": 8}),
    "aerial_pairs": ({"name": "pairs", "images": "{split}", "direction": "right_to_left"},
                     {"train": 314, "valid": 47, "test": 46}),
    "clothing": ({"name": "image_folder", "images": "{split}"}, {"train": 3068, "valid": 341, "test": 372}),
    "mnist_10k": ({"name": "idx", "images": "t10k-images-idx3-ubyte.gz", "labels": "t10k-labels-idx1-ubyte.gz",
                   "fractions": {"valid": 0.1}}, {"train": 9000, "valid": 1000}),
    "names": ({"name": "text_classes", "fractions": {"valid": 0.1}}, {"train": 18063, "valid": 1987}),
    "shakespeare": ({"name": "text", "file": "input.txt", "fractions": {"valid": 0.1}}, {"train": 7842, "valid": 871}),
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_a_sample_set_has_the_items_that_its_authors_count(shared_data, name):
    reader, counts = SETS[name]
    data = {"root": str(shared_data / name), "reader": reader}
    config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"epochs": 1}}).data
    splits = read_splits(config.reader, config.root)
    assert {split: len(items) for split, items in splits.items()} == counts
    for items in splits.values():
        for index in range(0, len(items), -(-len(items) // 12)):
            check_item(items[index], where=items.source(index))


def test_boxes_of_the_blood_cells_are_counted(shared_data):
    data = {"root": str(shared_data / "bccd"), "reader": SETS["bccd"][0]}
    config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"epochs": 1}}).data
    train = read_splits(config.reader, config.root)["train"]
    labels = np.concatenate([train[index]["labels"] for index in range(0, len(train))])
    assert train.class_names == ("RBC", "WBC", "Platelets") and np.bincount(labels).tolist() == [2381, 214, 209]
