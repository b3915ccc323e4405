"""Which loader each split gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import TrainerError
from trainer.configs import RunConfig, config_from
from trainer.datasets import ArrayDataset, Batch, Cached, Draws, Pipeline, Subset, loaders, split
from trainer.datasets.transforms import Resize, VerticalFlip
from trainer.engine.targets.cpu.topology import available_processors


def mark(batch: Batch, draws: Draws) -> Batch:
    return {**batch, "value": batch["value"] + 100}


def test_only_training_is_shuffled_and_augmented() -> None:
    config = RunConfig.model_validate(
        {"task": "t", "seed": 4, "optimizer": {"name": "sgd"}, "train": {"epochs": 1}}
        | {"data": {"batch_size": 4, "valid_batch_size": 6}}
    )
    numbers = ArrayDataset({"value": np.arange(12)})
    made = loaders({"train": numbers, "valid": numbers, "test": numbers}, config, augmentation=mark)
    assert [made[name].steps_per_epoch for name in ("train", "valid", "test")] == [3, 2, 2]
    train = np.concatenate([batch["value"] for batch in made["train"].epoch(0)])
    assert sorted(train) == list(range(100, 112)) and list(train) != sorted(train)
    for name in ("valid", "test"):
        assert np.concatenate([batch["value"] for batch in made[name].epoch(0)]).tolist() == list(range(12))


class Files:
    """Items that are read one by one and know their classes and sizes without."""

    class_names = ("cat", "dog")

    def __init__(self, count: int) -> None:
        self.labels = np.arange(count) % 10 // 9
        self.sizes = np.arange(count) % 40 + 1
        self.at_least: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        tokens = np.full(self.sizes[index], index, np.int32)
        image = np.zeros((64, 64, 3) if self.at_least is None else (*self.at_least, 3), np.uint8)
        return {"tokens": tokens, "label": np.int64(self.labels[index]), "image": image}

    def source(self, index: int) -> str:
        return str(index)


def of(data: dict[str, Any], **splits: Any) -> dict[str, Any]:
    config = RunConfig.model_validate(
        {"task": "t", "optimizer": {"name": "sgd"}, "train": {"epochs": 1}, "data": {"batch_size": 10, **data}}
    )
    return loaders(splits, config)


def test_workers_are_shared_and_many_only_for_items_that_are_read() -> None:
    arrays = ArrayDataset({"value": np.arange(12)})
    made = of({}, train=arrays, valid=arrays)
    assert made["train"].workers is made["valid"].workers
    assert (made["train"].workers.kind, made["train"].workers.workers) == ("thread", 1)
    made = of({}, train=split(Files(40), {"a": 30, "b": 10})["a"], valid=Files(10))
    assert made["train"].workers is made["valid"].workers
    workers = made["train"].workers
    assert (workers.kind, workers.workers) == ("process", max(1, min(8, available_processors() - 1)))
    made["train"].close()
    made = of({"workers": 2, "worker_kind": "thread", "prefetch": 3}, train=Files(40))
    assert (made["train"].workers.kind, made["train"].workers.ahead) == ("thread", 6)


def test_samplers_are_those_of_the_config() -> None:
    def classes(**data: Any) -> np.ndarray:
        loader = of({"workers": 0, **data}, train=Files(200))["train"]
        return np.bincount(np.concatenate([batch["label"] for batch in loader.epoch(0)]))

    assert classes().tolist() == [180, 20]
    assert classes(sampler={"name": "class_balanced", "samples": 100}).tolist() == [50, 50]
    assert classes(sampler={"name": "weighted", "class_weights": {"cat": 0}}).tolist() == [0, 200]
    with pytest.raises(TrainerError, match=r"class_weights: no such class[\s\S]*cow[\s\S]*cat, dog"):
        classes(sampler={"name": "weighted", "class_weights": {"cow": 1}})
    numbers = ArrayDataset({"value": np.arange(12)})
    with pytest.raises(TrainerError, match=r"class of each item[\s\S]*ArrayDataset[\s\S]*'labels'"):
        of({"sampler": {"name": "class_balanced"}}, train=numbers)


def test_overfitting_repeats_the_same_shuffled_batches_and_leaves_validation_alone() -> None:
    config = config_from(
        {"optimizer": {"name": "sgd", "learning_rate": 0.1}, "train": {"epochs": 1, "overfit_batches": 2}}
        | {"data": {"batch_size": 3}}
    )
    numbers = ArrayDataset({"value": np.arange(30)})
    made = loaders({"train": numbers, "valid": numbers}, config)
    first, later = ([batch["value"].tolist() for batch in made["train"].epoch(epoch)] for epoch in (0, 7))
    assert first == later and len(first) == 2
    assert len({*first[0], *first[1]}) == 6 and first != [[0, 1, 2], [3, 4, 5]]
    assert made["valid"].steps_per_epoch == 10


def test_overfitting_more_batches_than_there_are_uses_all_items() -> None:
    config = config_from(
        {"optimizer": {"name": "sgd", "learning_rate": 0.1}, "train": {"epochs": 1, "overfit_batches": 9}}
        | {"data": {"batch_size": 4}}
    )
    (train,) = loaders({"train": ArrayDataset({"value": np.arange(6)})}, config).values()
    assert train.steps_per_epoch == 2


def test_sizes_are_what_the_config_says() -> None:
    loader = of({"workers": 0, "size_window": 20, "max_objects": 5}, train=Files(400))["train"]
    lengths = [batch["length"] for batch in loader.epoch(0)]
    assert max(np.ptp(length) for length in lengths) <= 5  # of 40
    loader = of({"workers": 0, "max_tokens": 50, "image_sizes": ((70, 80),)}, train=Files(10))["train"]
    (batch,) = loader.epoch(0)
    assert batch["tokens"].shape == (10, 50) and batch["image"].shape == (10, 3, 70, 80)


def test_images_are_decoded_as_small_as_the_transforms_allow() -> None:
    pipeline = Pipeline(Subset(Files(40), np.arange(10)), [Resize((16, 16))])
    for scaled, expected in [(True, (16, 16)), (False, None)]:
        loader = of({"workers": 0, "scaled_decoding": scaled}, train=pipeline)["train"]
        assert loader.dataset.dataset.dataset.at_least == expected
        assert next(loader.epoch(0))["image"].shape == (10, 3, 16, 16)
    assert pipeline.dataset.dataset.at_least is None  # another's, and left alone


def test_a_cache_lies_below_the_transforms_and_its_memory_is_shared_out() -> None:
    made = of({"workers": 0, "cache_gb": 1e-3}, train=Pipeline(Files(30), []), valid=Files(10))
    train, valid = made["train"].dataset, made["valid"].dataset
    assert isinstance(train, Pipeline) and isinstance(train.dataset, Cached) and isinstance(valid, Cached)
    assert (train.dataset.cache.limit, valid.cache.limit) == (750_000, 250_000)
    list(made["train"].epoch(0))
    assert len(train.dataset.cache) == 30
    arrays = ArrayDataset({"value": np.arange(12)})
    assert of({"cache_gb": 1}, train=arrays)["train"].dataset is arrays


def test_each_split_gets_the_transforms_that_the_config_has_for_it() -> None:
    flip, resize = {"name": "horizontal_flip"}, {"name": "resize", "size": [2, 5]}
    config = config_from(
        {"seed": 4, "optimizer": {"name": "sgd"}, "train": {"epochs": 1}}
        | {"data": {"batch_size": 4, "workers": 0, "transforms": {"train": [flip], "valid": [resize]}}}
    )
    rows = np.tile(np.arange(3, dtype=np.uint8), (8, 1, 2, 1))
    images = ArrayDataset({"image": rows})
    of_the_task = Pipeline(images, [VerticalFlip()], config.seed)
    made = loaders({"train": of_the_task, "valid": images, "test": images}, config)
    seen = [np.concatenate([batch["image"] for batch in made["train"].epoch(epoch)]) for epoch in range(2)]
    turned = [image[..., 0].ravel().tolist().count(2) for epoch in seen for image in epoch]
    assert set(turned) == {0, 2} and not np.array_equal(*seen)  # again in each epoch
    for name in ("valid", "test"):
        assert next(iter(made[name].epoch(0)))["image"].shape == (4, 1, 2, 5)
