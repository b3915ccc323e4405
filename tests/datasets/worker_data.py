"""Data sets for tests of worker processes, which import this file by its path."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

from trainer import TrainerError
from trainer.datasets import Batch, Draws, Item


class Boxes:
    """Items with all that has to be brought into shape: an image, boxes in any number, other ones each epoch."""

    class_names = ("a", "b")

    def __init__(self, count: int, bad: tuple[int, ...] = ()) -> None:
        self.count, self.bad = count, bad
        self.table = np.random.default_rng(0).integers(0, 256, (count, 1000), dtype=np.uint8)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Item:
        return self.item(index, 0)

    def item(self, index: int, epoch: int) -> Item:
        if index in self.bad:
            raise TrainerError("unreadable", where=self.source(index), hint="Fetch it again.")
        random = np.random.default_rng([index, epoch])
        objects = int(random.integers(0, 20))
        return {
            "image": random.integers(0, 256, (6, 5, 3), dtype=np.uint8) ^ self.table[index, 0],
            "boxes": random.random((objects, 4), np.float32),
            "labels": np.full(objects, index),
            "image_id": np.int64(index),
        }

    def source(self, index: int) -> str:
        return f"boxes/{index}.png"

    def first_epoch(self) -> FirstEpoch:
        """The same items in every epoch."""
        return FirstEpoch(self)


class FirstEpoch:
    """Items of `Boxes` that don't change."""

    class_names = ("a", "b")

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, index: int) -> Item:
        return self.boxes[index]

    def source(self, index: int) -> str:
        return self.boxes.source(index)


def doubled(batch: Batch, draws: Draws) -> Batch:
    """A transform of whole batches, which needs the generator of random numbers."""
    noise = (draws.uniform(1) * 100).astype(np.uint8)
    return {**batch, "image": batch["image"] + noise[:, :, None, None]}


class Deadly:
    """Numbers; who reads `deadly` for the first time (as the file `mark` tells) is killed."""

    class_names = ()

    def __init__(self, count: int, deadly: int, mark: Path | None) -> None:
        self.count, self.deadly, self.mark = count, deadly, mark

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Item:
        if index == self.deadly and (self.mark is None or not self.mark.exists()):
            if self.mark is not None:
                self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"value": np.int64(index)}  # type: ignore[dict-item]

    def source(self, index: int) -> str:
        return f"deadly/{index}"


class Broken(Deadly):
    """Fails on `deadly` in a way that nobody foresaw."""

    def __getitem__(self, index: int) -> Item:
        if index == self.deadly:
            return {}["no such key"]
        return {"value": np.int64(index)}  # type: ignore[dict-item]


class Slow(Deadly):
    """Never done with `deadly`."""

    def __getitem__(self, index: int) -> Item:
        while index == self.deadly:
            time.sleep(0.01)
        return {"value": np.int64(index)}  # type: ignore[dict-item]

    def source(self, index: int) -> str:
        return f"slow/{index}"


class Modules:
    """Says which of the modules that matter a worker has imported, and how many threads it has."""

    class_names = ()

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Item:
        import sys

        names = ("trainer.engine", "trainer.learner", "trainer.configs", "llvmlite", "PIL", "pydantic")
        return {"loaded": np.array([name in sys.modules for name in names])}

    def source(self, index: int) -> str:
        return f"modules/{index}"


class Points:
    """Points of the plane in two classes."""

    class_names = ("left", "right")

    def __init__(self, count: int) -> None:
        self.points = np.random.default_rng(0).standard_normal((count, 2)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> Item:
        return {"point": self.points[index], "label": np.int64(self.points[index, 0] > 0)}  # type: ignore[dict-item]

    def source(self, index: int) -> str:
        return f"points/{index}"
