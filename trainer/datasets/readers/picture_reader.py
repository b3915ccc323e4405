"""What readers of pictures have in common: the number of channels, and decoding at a lower resolution."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.images import Picture, decode, oriented_size


class PictureReader:
    """A base of readers.

    `at_least` is (height, width) that are enough for whoever uses the items, or None: a JPEG may then be decoded at a
    fraction of its size, and the item's boxes, masks and keypoints are those of the smaller picture. Its field `size`
    stays that of the file.
    """

    def __init__(self, channels: Literal[1, 3] | None = 3) -> None:
        self.channels: Literal[1, 3] | None = channels
        self.at_least: tuple[int, int] | None = None

    def picture(self, path: Path, where: str, annotated_size: tuple[int, int] | None = None) -> Picture:
        """The decoded image. Raises `TrainerError` where it has another size than its annotations say."""
        picture = decode(path, channels=self.channels, at_least=self.at_least, annotated_size=annotated_size)
        if annotated_size is not None and annotated_size != picture.size:
            raise TrainerError(
                "the picture has another size than its annotations say",
                where=where,
                found=f"{path}: {picture.size[1]} x {picture.size[0]} pixels",
                expected=f"{annotated_size[1]} x {annotated_size[0]}",
                hint="Boxes and masks would lie in wrong places.",
            )
        return picture

    def __len__(self) -> int:
        """The number of items."""
        raise NotImplementedError

    @property
    def sizes(self) -> np.ndarray | None:
        """int64 [N, 2]: height and width of each image; None where items have no image."""
        return self.file_sizes()

    def file_sizes(self) -> np.ndarray:
        """int64 [N, 2]: height and width of each image from the head of its file; 0 where that can't be read."""
        return np.array([self._size(index) for index in range(len(self))], np.int64).reshape(-1, 2)

    def _size(self, index: int) -> tuple[int, int]:
        try:
            return oriented_size(Path(self.image_path(index)))
        except TrainerError:  # reading the item says what is wrong
            return 0, 0

    def source(self, index: int) -> str:
        """Where item `index` comes from."""
        raise NotImplementedError

    def image_path(self, index: int) -> str:
        """The path of the file that makes item `index` another than all others: its image, or its annotation."""
        return self.source(index)
