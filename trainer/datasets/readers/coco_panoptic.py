"""COCO's panoptic annotations: a PNG per image, whose colors are the ids of segments described by a JSON file.

Format: https://cocodataset.org/#format-data, section "Panoptic Segmentation" (number = red + 256 green + 65536 blue).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import IGNORED, Item
from trainer.datasets.images import decode
from trainer.datasets.paths import within
from trainer.datasets.readers.boxes import nearest, scaled
from trainer.datasets.readers.json_file import Count, Id, JsonFile
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.picture_reader import PictureReader
from trainer.datasets.transforms.objects import placement


class _Segment(msgspec.Struct, gc=False):
    id: Id
    category_id: Id
    iscrowd: int = 0


class _Annotation(msgspec.Struct, gc=False):
    image_id: Id
    file_name: str
    segments_info: list[_Segment]


class _Image(msgspec.Struct, gc=False):
    id: Id
    file_name: str
    height: Count = 0
    width: Count = 0


class _Category(msgspec.Struct, gc=False):
    id: Id
    name: str
    isthing: int = 1


class _File(msgspec.Struct, gc=False):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category]


class CocoPanoptic(PictureReader):
    """Items {image, mask, boxes, labels, crowd, area, masks, image_id, size}.

    `mask` has the class of each pixel, 255 without a segment. The other fields describe segments of things, in the
    order of the file. Classes are contiguous, in the order of the categories' ids.

    Args:
        root: the data folder; the other paths are relative to it.
        images: folder of the images.
        segments: folder of the PNG files.
        annotations: the JSON file.
        channels: 1 or 3, the number of channels of every image; None: as in each file.

    Raises:
        TrainerError: the JSON file is missing or invalid. Annotations of unknown images go to `opening.on_problem`.
    """

    def __init__(
        self,
        root: Path,
        *,
        images: str,
        segments: str,
        annotations: str,
        channels: Literal[1, 3] | None = 3,
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(channels)
        self.images, self.segments, self.path = root / images, root / segments, root / annotations
        file = JsonFile(self.path).decode(_File, "images, categories and annotations with segments_info")
        self._categories = sorted(file.categories, key=lambda category: category.id)
        self._labels = {category.id: label for label, category in enumerate(self._categories)}
        self.class_names: Sequence[str] = tuple(category.name for category in self._categories)
        self.is_thing = np.array([bool(category.isthing) for category in self._categories])
        self._records = file.images
        known = {image.id for image in file.images}
        self._annotations = {one.image_id: one for one in file.annotations}
        for image_id in self._annotations.keys() - known:
            opening.on_problem(
                TrainerError("an annotation belongs to no image", where=str(self.path), found=f"image id {image_id}")
            )

    def __len__(self) -> int:
        return len(self._records)

    def source(self, index: int) -> str:
        record = self._records[index]
        return f"{self.path}: image {record.id} ({record.file_name})"

    def image_path(self, index: int) -> str:
        return str(self.images / self._records[index].file_name)

    def __getitem__(self, index: int) -> Item:
        record, where = self._records[index], self.source(index)
        annotation = self._annotations.get(record.id)
        if annotation is None:
            raise TrainerError("an image without annotation", where=where)
        annotated = (record.height, record.width) if record.height and record.width else None
        picture = self.picture(within(self.images, record.file_name, where), where, annotated)
        numbers = self._numbers(within(self.segments, annotation.file_name, where), picture.size, where)
        labels = self._checked_labels(annotation, numbers, where)
        shape, size = picture.pixels.shape, picture.size
        kind = np.uint8 if len(labels) == 0 or len(self.class_names) <= IGNORED else np.int32
        table = np.array([*labels, IGNORED], kind)
        places = _places(numbers, [segment.id for segment in annotation.segments_info])
        things = [place for place, label in enumerate(labels) if self.is_thing[label]]
        masks = np.array([places == place for place in things], bool).reshape(-1, *size)
        share = shape[0] * shape[1] / (size[0] * size[1])
        return {
            "image": picture.pixels,
            "mask": nearest(table[places], shape),
            "boxes": scaled(_boxes(masks), size, shape),
            "labels": np.array([labels[place] for place in things], np.int64),
            "crowd": np.array([annotation.segments_info[place].iscrowd for place in things], bool),
            "area": (masks.sum((1, 2)) * share).astype(np.float32),
            "masks": nearest(masks, shape),
            "image_id": np.array(record.id, np.int64),
            "size": np.array(size, np.int64),
            "placement": placement(size, shape),
        }

    def _numbers(self, path: Path, size: tuple[int, int], where: str) -> np.ndarray:
        """int32 [H, W]: the segment id of each pixel, 0 for none."""
        pixels = decode(path).pixels.astype(np.int32)
        if pixels.shape[:2] != size:
            raise TrainerError(
                "the size of a mask doesn't match its image",
                where=where,
                found=f"{path}: {pixels.shape[1]}x{pixels.shape[0]} pixels",
                expected=f"{size[1]}x{size[0]}",
            )
        numbers: np.ndarray = pixels[..., 0] + (pixels[..., 1] << 8) + (pixels[..., 2] << 16)
        return numbers

    def _checked_labels(self, annotation: _Annotation, numbers: np.ndarray, where: str) -> list[int]:
        """The class of each segment. Raises `TrainerError` if the PNG and the list of segments differ."""
        listed = [segment.id for segment in annotation.segments_info]
        present = set(np.unique(numbers).tolist()) - {0}
        if present != set(listed) or len(set(listed)) != len(listed):
            raise TrainerError(
                "the segments of the PNG don't match the list of segments",
                where=f"{where}: {annotation.file_name}",
                found=f"only in the PNG: {sorted(present - set(listed))[:8]}, only in the list: "
                f"{sorted(set(listed) - present)[:8]}, listed: {len(listed)}",
                expected="each segment once in both",
            )
        strange = [
            segment.category_id for segment in annotation.segments_info if segment.category_id not in self._labels
        ]
        if strange:
            raise TrainerError("unknown category of a segment", where=where, found=f"category id {strange[0]}")
        return [self._labels[segment.category_id] for segment in annotation.segments_info]


def _places(numbers: np.ndarray, listed: Sequence[int]) -> np.ndarray:
    """int64 [H, W]: the position of each pixel's segment in the list; the list's length for none."""
    order = np.argsort(np.array(listed, np.int64), kind="stable")
    ordered = np.array(listed, np.int64)[order]
    found = np.searchsorted(ordered, numbers)
    return np.where(numbers == 0, len(listed), np.append(order, len(listed))[found])


def _boxes(masks: np.ndarray) -> np.ndarray:
    """float64 [N, 4]: the bounding box of each mask, which must not be empty."""
    boxes = np.zeros((len(masks), 4))
    for row, mask in enumerate(masks):
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        boxes[row] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    return boxes
