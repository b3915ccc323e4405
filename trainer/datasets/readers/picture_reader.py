"""The base of image readers: number of channels, and decoding at reduced resolution."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.images import Picture, decode, oriented_size


class PictureReader:
    """Base class of image readers.

    `at_least` is the minimum (height, width) that the items need, or None. A JPEG may then be decoded at a fraction of
    its size, and boxes, masks and keypoints are scaled accordingly. The field `size` is that of the file.
    """

    def __init__(self, channels: Literal[1, 3] | None = 3) -> None:
        self.channels: Literal[1, 3] | None = channels
        self.at_least: tuple[int, int] | None = None

    def picture(self, path: Path, where: str, annotated_size: tuple[int, int] | None = None) -> Picture:
        """The decoded image. Raises `TrainerError` if its size differs from that in the annotations."""
        picture = decode(path, channels=self.channels, at_least=self.at_least, annotated_size=annotated_size)
        if annotated_size is not None and annotated_size != picture.size:
            raise TrainerError(
                "the size of the image doesn't match its annotations",
                where=where,
                found=f"{path}: {picture.size[1]}x{picture.size[0]} pixels",
                expected=f"{annotated_size[1]}x{annotated_size[0]}",
                hint="Boxes and masks would be at wrong positions.",
            )
        return picture

    def __len__(self) -> int:
        """The number of items."""
        raise NotImplementedError

    @property
    def sizes(self) -> np.ndarray | None:
        """int64 [N, 2]: height and width of each image; None if items have no image."""
        return self.file_sizes()

    def file_sizes(self) -> np.ndarray:
        """int64 [N, 2]: height and width of each image from its file header; 0 if unreadable."""
        return np.array([self._size(index) for index in range(len(self))], np.int64).reshape(-1, 2)

    def _size(self, index: int) -> tuple[int, int]:
        try:
            return oriented_size(Path(self.image_path(index)))
        except TrainerError:  # the error is reported when the item is read
            return 0, 0

    def source(self, index: int) -> str:
        """The origin of item `index`."""
        raise NotImplementedError

    def image_path(self, index: int) -> str:
        """The path of the file that distinguishes item `index` from others: its image, or its annotation."""
        return self.source(index)
