"""Arrays as data sets, and parts of data sets."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError
from trainer.datasets import ArrayDataset, Dataset, Subset, split


def numbers(count: int) -> ArrayDataset:
    return ArrayDataset(
        {"value": np.arange(count), "square": np.arange(count) ** 2}, class_names=("a", "b"), name="numbers"
    )


def test_split_takes_consecutive_parts_in_order() -> None:
    parts = split(numbers(10), {"train": 7, "valid": 1, "test": 2})
    assert [int(parts["test"][row]["value"]) for row in range(2)] == [8, 9]
    assert int(parts["valid"][0]["square"]) == 49 and len(parts["train"]) == 7
    assert parts["test"].source(1) == "numbers[9]"
    assert parts["train"].class_names == ("a", "b")
    assert isinstance(parts["train"], Dataset)


@pytest.mark.parametrize("sizes", [{"train": 9}, {"train": 11}, {"train": 10, "valid": 0}, {}])
def test_a_split_that_does_not_cover_the_data_is_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(TrainerError, match=r"don't add up[\s\S]*of 10 items"):
        split(numbers(10), sizes)


def test_a_part_of_a_part_takes_the_items_it_names() -> None:
    part = Subset(Subset(numbers(10), [9, 4, 6]), [2, 0])
    np.testing.assert_array_equal(part.take(np.array([1, 0, 1]))["value"], [9, 6, 9])
    assert part.source(0) == "numbers[6]"


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(TrainerError, match="image: 2, label: 3"):
        ArrayDataset({"image": np.zeros(2), "label": np.zeros(3)})
    with pytest.raises(TrainerError, match="no arrays"):
        ArrayDataset({})
