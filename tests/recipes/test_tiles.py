"""Windows of large pictures: each pixel is measured once, away from inner edges."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError
from trainer.datasets import Item
from trainer.learner.inference.tiles import Tiles

SIZES = [(40, 40), (41, 97), (17, 30), (300, 64), (64, 65), (128, 96)]


class Pictures:
    """Pictures that say where each pixel lies, with masks of numbers below 255."""

    class_names = ("one", "two")
    sizes = np.array(SIZES)

    def __len__(self) -> int:
        return len(SIZES)

    def __getitem__(self, index: int) -> Item:
        height, width = SIZES[index]
        rows, columns = np.indices((height, width))
        image = np.stack([rows % 256, columns % 256, np.full((height, width), index)], axis=2).astype(np.uint8)
        return {"image": image, "mask": ((rows * 7 + columns * 3) % 250).astype(np.uint8)}

    def source(self, index: int) -> str:
        return f"picture {index}"


@pytest.mark.parametrize(("size", "margin"), [(64, 8), (64, 0), (32, 15)])
def test_every_pixel_is_measured_once_and_away_from_inner_edges(size: int, margin: int) -> None:
    data = Pictures()
    tiles = Tiles(data, size, margin)
    seen = [np.zeros(extents, int) for extents in SIZES]
    for number, (index, window) in enumerate(tiles.places):
        item, top, left = tiles[number], window.top, window.left
        assert item["image"].shape == (size, size, 3) and item["mask"].shape == (size, size)
        whole, (height, width) = data[index], SIZES[index]
        part = whole["image"][top : top + size, left : left + size]
        np.testing.assert_array_equal(item["image"][: part.shape[0], : part.shape[1]], part)
        rows, columns = np.nonzero(item["mask"] != 255)
        np.testing.assert_array_equal(item["mask"][rows, columns], whole["mask"][top + rows, left + columns])
        seen[index][top + rows, left + columns] += 1
        for places, start, extent in ((rows, top, height), (columns, left, width)):
            assert start == 0 or places.min() >= margin
            assert start + size >= extent or places.max() < size - margin
    assert all((counts == 1).all() for counts in seen)
    first = [index for index, _ in tiles.places].index(1)
    assert "picture 1, window at row 0, column 0" in tiles.source(first)


def test_as_few_windows_as_reach_from_end_to_end() -> None:
    count = [place[0] for place in Tiles(Pictures(), 64, 8).places].count
    assert [count(index) for index in range(len(SIZES))] == [1, 2, 1, 6, 2, 6]


def test_margins_leave_something_between_them() -> None:
    with pytest.raises(TrainerError, match="leave nothing between them"):
        Tiles(Pictures(), 32, 16)
