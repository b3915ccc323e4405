"""A folder of images per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import Item
from trainer.datasets.paths import within
from trainer.datasets.readers.files import files_in, folders_in
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.picture_reader import PictureReader


class ImageFolder(PictureReader):
    """Items {image, label, size}: `root/images/<class>/…/<image>`.

    Args:
        root: the data folder.
        images: the folder that contains the class folders, relative to `root`.
        classes: names of the class folders in the order of the labels; None: all, sorted.
        channels: 1 or 3, the number of channels of every image; None: as in each file.

    Raises:
        TrainerError: the folder is missing or has no subfolders. Folders that are not classes, or without images, go to
            `opening.on_problem`.
    """

    def __init__(
        self,
        root: Path,
        *,
        images: str = ".",
        classes: Sequence[str] | None = None,
        channels: Literal[1, 3] | None = 3,
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(channels)
        self.folder = root / images
        present = folders_in(self.folder)
        self.class_names: Sequence[str] = tuple(classes) if classes is not None else tuple(present)
        if not present:
            raise TrainerError("no class folders", where=str(self.folder), expected="a folder for each class")
        for name in present:
            if name not in self.class_names:
                opening.on_problem(
                    TrainerError(
                        "the folder is not one of the classes",
                        where=str(self.folder / name),
                        found=name,
                        expected=", ".join(self.class_names[:12]),
                    )
                )
        self.names: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(self.class_names):
            files: list[str] = []
            if name in present:
                try:
                    files = files_in(self.folder / name, below=True, progress=opening.progress)
                except TrainerError as error:
                    opening.on_problem(error)
            self.names += [f"{name}/{file}" for file in files]
            labels += [label] * len(files)
            if opening.progress is not None:
                opening.progress(label + 1, len(self.class_names))
        self.labels = np.array(labels, np.int64)

    def shared_settings(self) -> Mapping[str, Any]:
        """The settings that other splits must share."""
        return {"classes": self.class_names}

    def __len__(self) -> int:
        return len(self.names)

    def source(self, index: int) -> str:
        return str(self.folder / self.names[index])

    def __getitem__(self, index: int) -> Item:
        where = self.source(index)
        picture = self.picture(within(self.folder, self.names[index], str(self.folder)), where)
        label = self.labels[index]
        return {"image": picture.pixels, "label": np.array(label), "size": np.array(picture.size, np.int64)}
