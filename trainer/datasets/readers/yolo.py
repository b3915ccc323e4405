"""YOLO's text labels: one file per image, one line per box: class, center x, center y, width, height as fractions of
the image.

Format: https://docs.ultralytics.com/datasets/detect/ (polygons of segmentation sets are converted to boxes).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import Item
from trainer.datasets.paths import within
from trainer.datasets.readers.boxes import checked_boxes, scaled
from trainer.datasets.readers.files import by_stem, files_in, read_text, refuse_splits, without_repeats
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.picture_reader import PictureReader
from trainer.datasets.transforms.objects import placement


class YoloDataset(PictureReader):
    """Items {image, boxes, labels, image_id, size, placement}. An image without a label file has no boxes.

    Args:
        root: the data folder; the other paths are relative to it.
        images: folder of the images.
        labels: folder of the text files; None: the path of `images` with images replaced by labels.
        image_set: text file with one image path per line; None: every image of the folder. The longest suffix of a path
            that exists in `root` is used, because lists are often written for another folder.
        classes: class names in the order of the class numbers, or a file with them: `data.yaml` or one name per line.
        channels: 1 or 3, the number of channels of every image; None: as in each file.

    Raises:
        TrainerError: a folder or the file of names is missing. Labels without an image go to `opening.on_problem`.
    """

    def __init__(
        self,
        root: Path,
        *,
        images: str = "images",
        labels: str | None = None,
        image_set: str | None = None,
        classes: Sequence[str] | str = "data.yaml",
        channels: Literal[1, 3] | None = 3,
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(channels)
        self.images = root / images
        self.label_folder = root / (labels if labels is not None else labels_beside(images))
        self.class_names: Sequence[str] = class_names(root, classes)
        if image_set is not None:
            listed = image_set_paths(self.images, os.path.relpath(root / image_set, self.images))
            self.names = without_repeats(listed, root / image_set, opening)
        else:
            self.names = files_in(self.images, below=True, progress=opening.progress)
            refuse_splits(self.names, self.images)
        self._stems = list(by_stem(self.names, self.images))
        self._labeled = set(
            by_stem(files_in(self.label_folder, (".txt",), below=True, progress=opening.progress), self.label_folder)
        )
        self.object_counts = self._counted(opening)
        """int64 [N]: number of lines of each label file; 0 if unreadable."""
        strays = self._labeled - set(self._stems) - {"classes"} if image_set is None else set()
        for stray in sorted(strays):
            opening.on_problem(
                TrainerError(
                    "a label file without an image",
                    where=f"{self.label_folder / stray}.txt",
                    found=f"no image {stray}",
                )
            )

    def __len__(self) -> int:
        return len(self.names)

    def source(self, index: int) -> str:
        return str(self.images / self.names[index])

    def __getitem__(self, index: int) -> Item:
        where = self.source(index)
        picture = self.picture(within(self.images, self.names[index], str(self.images)), where)
        numbers, shares = self.annotation(index)
        (height, width), shape = picture.size, picture.pixels.shape
        boxes = shares * np.array([width, height, width, height])
        label_file = self.label_folder / f"{self._stems[index]}.txt"
        boxes = checked_boxes(boxes, picture.size, str(label_file), [f"box {row}" for row in range(len(boxes))])
        return {
            "image": picture.pixels,
            "boxes": scaled(boxes, picture.size, shape),
            "labels": numbers,
            "image_id": np.array(index, np.int64),
            "size": np.array(picture.size, np.int64),
            "placement": placement(picture.size, shape),
        }

    def annotation(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Classes int64 [N] and x_min, y_min, x_max, y_max float64 [N, 4] as fractions of width and height.

        Raises:
            TrainerError: a line is not in YOLO's format, or its class is unknown.
        """
        stem = self._stems[index]
        if stem not in self._labeled:
            return np.zeros(0, np.int64), np.zeros((0, 4))
        path = within(self.label_folder, f"{stem}.txt", str(self.label_folder))
        numbers, boxes = [], []
        for number, line in enumerate(read_text(path).splitlines(), 1):
            if line.strip():
                label, box = self._parsed(line, f"{path}:{number}")
                numbers.append(label)
                boxes.append(box)
        return np.array(numbers, np.int64), np.array(boxes, np.float64).reshape(-1, 4)

    def _counted(self, opening: Opening) -> np.ndarray:
        counts = np.zeros(len(self._stems), np.int64)
        for index, stem in enumerate(self._stems):
            if stem in self._labeled:
                with suppress(TrainerError):  # the error is reported when the item is read
                    lines = read_text(within(self.label_folder, f"{stem}.txt", str(self.label_folder))).splitlines()
                    counts[index] = sum(bool(line.strip()) for line in lines)
            if opening.progress is not None and (index + 1) % 1000 == 0:
                opening.progress(index + 1, len(self._stems))
        return counts

    def _parsed(self, line: str, where: str) -> tuple[int, tuple[float, float, float, float]]:
        try:
            first, *values = (float(word) for word in line.split())
        except ValueError:
            values, first = [], -1.0
        is_box, is_polygon = len(values) == 4, len(values) >= 6 and len(values) % 2 == 0
        if not first.is_integer() or not (is_box or is_polygon):
            raise TrainerError(
                "not a line of YOLO labels",
                where=where,
                found=line[:80],
                expected="class, center x, center y, width, height as fractions of the image",
            )
        if not 0 <= first < len(self.class_names):
            raise TrainerError(
                "a class has no name",
                where=where,
                found=f"class {int(first)}",
                expected=f"0 to {len(self.class_names) - 1} ({', '.join(self.class_names[:8])})",
            )
        if is_box:
            x, y, wide, high = values
            return int(first), (x - wide / 2, y - high / 2, x + wide / 2, y + high / 2)
        return int(first), (min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2]))


def labels_beside(images: str) -> str:
    """The label folder by YOLO's convention: images/train has labels/train."""
    parts = images.split("/")
    places = [place for place, part in enumerate(parts) if part == "images"]
    if places:
        parts[places[-1]] = "labels"
        return "/".join(parts)
    return "labels"


def class_names(root: Path, classes: Sequence[str] | str) -> tuple[str, ...]:
    """The class names, or those in a file: `names` of a YAML file, or one per line."""
    if not isinstance(classes, str):
        return tuple(classes)
    path = root / classes
    if path.suffix not in (".yaml", ".yml"):
        return tuple(line.strip() for line in read_text(path).splitlines() if line.strip())
    try:
        names = read_yaml(path)["names"]
        ordered = [names[number] for number in range(len(names))] if isinstance(names, dict) else list(names)
    except (KeyError, TypeError) as error:
        raise TrainerError(
            "the file has no list of class names",
            where=str(path),
            found=f"{type(error).__name__}: {error}",
            expected="names: [first, second] or names: {0: first, 1: second}",
        ) from None
    return tuple(str(name) for name in ordered)


def read_yaml(path: Path) -> Any:
    """The contents of a YAML file. Raises `TrainerError` with the line if it is invalid."""
    import yaml

    try:
        return yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise TrainerError("invalid YAML", where=where, found=getattr(error, "problem", error)) from None


def image_set_paths(root: Path, image_set: str) -> list[str]:
    """The image paths of a list, relative to `root`: for each, the longest existing suffix, otherwise the whole path.

    Raises:
        TrainerError: the list is missing or empty.
    """
    lines = [line.strip().replace("\\", "/") for line in read_text(root / image_set).splitlines()]
    found = [_resolved(root, line.removeprefix("./")) for line in lines if line]
    if not found:
        raise TrainerError("a list of images is empty", where=str(root / image_set), expected="one path per line")
    return found


def _resolved(root: Path, line: str) -> str:
    parts = [part for part in line.split("/") if part not in ("", ".", "..")]
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if (root / end).is_file()), "/".join(parts))
