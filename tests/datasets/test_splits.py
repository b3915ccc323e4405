"""Which loader each split gets."""

from __future__ import annotations

import numpy as np

from trainer.configs import RunConfig
from trainer.datasets import ArrayDataset, Batch, Draws, loaders


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
