"""Image pairs: side by side in one file, or in two folders under the same names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import TARGET, Item
from trainer.datasets.images import decode
from trainer.datasets.paths import within
from trainer.datasets.readers.files import by_stem, files_in, refuse_splits
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.picture_reader import PictureReader


class PairedImages(PictureReader):
    """Items {image, target, size}.

    Args:
        root: the data folder; the other paths are relative to it.
        images: folder of the input images, or of files with both images side by side.
        targets: folder of the target images; None: each file contains both, one in each half.
        direction: which half is the input: "left_to_right" or "right_to_left".
        channels: 1 or 3, the number of channels of every image; None: as in each file.

    Raises:
        TrainerError: a folder is missing. Targets without an image go to `opening.on_problem`.
    """

    class_names: Sequence[str] = ()

    def __init__(
        self,
        root: Path,
        *,
        images: str = ".",
        targets: str | None = None,
        direction: Literal["left_to_right", "right_to_left"] = "left_to_right",
        channels: Literal[1, 3] | None = 3,
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(channels)
        self.images = root / images
        self.targets = None if targets is None else root / targets
        self.is_mirrored = direction == "right_to_left"
        self.names = files_in(self.images, below=True, progress=opening.progress)
        refuse_splits(self.names, self.images)
        self._target_names: list[str | None] = []
        if self.targets is not None:
            found = by_stem(files_in(self.targets, below=True, progress=opening.progress), self.targets)
            stems = list(by_stem(self.names, self.images))
            self._target_names = [found.get(stem) for stem in stems]
            for stray in sorted(set(found) - set(stems)):
                where = str(self.targets / found[stray])
                opening.on_problem(TrainerError("a target without an image", where=where, found=f"no image {stray}"))

    def __len__(self) -> int:
        return len(self.names)

    def source(self, index: int) -> str:
        return str(self.images / self.names[index])

    @property
    def sizes(self) -> np.ndarray:
        """int64 [N, 2]: height and width of each image; for files with both, those of one half."""
        whole = self.file_sizes()
        return whole if self.targets is not None else whole // (1, 2)

    def __getitem__(self, index: int) -> Item:
        where = self.source(index)
        path = within(self.images, self.names[index], str(self.images))
        image = self._whole(path)
        if self.targets is not None:
            name = self._target_names[index]
            if name is None:
                expected = str(self.targets / f"{Path(self.names[index]).stem}.*")
                raise TrainerError("an image without a target", where=where, expected=expected)
            target = self._whole(within(self.targets, name, str(self.targets)))
        else:
            width = image.shape[1]
            if width % 2:
                raise TrainerError(
                    "the width of a file with two images is odd",
                    where=where,
                    found=f"{width} pixels",
                    expected="an even number",
                )
            image, target = image[:, : width // 2], image[:, width // 2 :]
        size = np.array(image.shape[:2], np.int64)
        if self.is_mirrored:
            image, target = target, image
        return {"image": image, TARGET: target, "size": size}

    def _whole(self, path: Path) -> np.ndarray:
        """An image at full resolution: scaled decoding is for JPEG only, and would change its ratio to the target."""
        return decode(path, channels=self.channels).pixels
