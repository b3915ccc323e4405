"""COCO: boxes, masks of polygons and run lengths, crowds, keypoints. Format: https://cocodataset.org/#format-data"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import Item
from trainer.datasets.paths import within
from trainer.datasets.readers.boxes import checked_boxes, nearest, scaled
from trainer.datasets.readers.coco_index import CocoIndex, index_coco
from trainer.datasets.readers.coco_masks import mask_of
from trainer.datasets.readers.json_file import Places
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.picture_reader import PictureReader
from trainer.datasets.transforms.objects import placement


class CocoDataset(PictureReader):
    """Items {image, boxes, labels, crowd, area, image_id, size, placement}, with masks and keypoints if requested.

    Args:
        root: the data folder; `images` (a folder) and `annotations` (a JSON file) are relative to it.
        masks: whether items have `masks`.
        keypoints: whether items have `keypoints`.
        channels: 1 or 3, the number of channels of every image; None: as in each file.

    Raises:
        TrainerError: see `index_coco`. Annotations of unknown images go to `opening.on_problem`.
    """

    def __init__(
        self,
        root: Path,
        *,
        images: str,
        annotations: str,
        masks: bool = False,
        keypoints: bool = False,
        channels: Literal[1, 3] | None = 3,
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(channels)
        self.folder = root / images
        self.index: CocoIndex = index_coco(root / annotations, opening.progress)
        self.masks, self.keypoints = masks, keypoints
        self._places = Places(self.index.path, self.index.stamp)
        for problem in self.index.unattached:
            opening.on_problem(
                TrainerError(
                    "an annotation belongs to no image",
                    where=str(self.index.path),
                    found=problem,
                    hint="Set `data.on_error: skip` to leave such annotations out.",
                )
            )
        if keypoints and not self.index.keypoint_names:
            raise TrainerError(
                "the annotations have no keypoints",
                where=f"{self.index.path}: categories",
                found="no category with a list `keypoints`",
            )

    @property
    def class_names(self) -> Sequence[str]:
        return self.index.category_names

    @property
    def category_ids(self) -> np.ndarray:
        """int64 [classes]: the category ids of the file, in the order of the labels."""
        return self.index.category_ids

    def __len__(self) -> int:
        return len(self.index)

    def source(self, index: int) -> str:
        return f"{self.index.path}: image {self.index.image_ids[index]} ({self.index.file_names[index]})"

    def image_path(self, index: int) -> str:
        return str(self.folder / self.index.file_names[index])

    @property
    def sizes(self) -> np.ndarray:
        """int [N, 2]: height and width of each image, from the annotations or, if missing, from its file."""
        return self.index.sizes if self.index.sizes.all() else self.file_sizes()

    @property
    def object_counts(self) -> np.ndarray:
        """int64 [N]: the number of annotations of each image."""
        return np.diff(self.index.first)

    def __getitem__(self, index: int) -> Item:
        where, columns = self.source(index), self.index
        for problem in columns.problems.get(index, ()):
            raise TrainerError("invalid annotations of an image", where=where, found=problem)
        path = within(self.folder, columns.file_names[index], where)
        height, width = (int(extent) for extent in columns.sizes[index])
        picture = self.picture(path, where, (height, width) if height and width else None)
        shape, size = picture.pixels.shape, picture.size
        here = columns.of_image(index)
        names = [f"annotation {number}" for number in columns.ids[here]]
        x, y, wide, high = columns.boxes[here].T
        boxes = checked_boxes(np.stack([x, y, x + wide, y + high], axis=1), size, where, names)
        share = shape[0] * shape[1] / (size[0] * size[1])
        item = {
            "image": picture.pixels,
            "boxes": scaled(boxes, size, shape),
            "labels": columns.labels[here].astype(np.int64),
            "crowd": columns.crowd[here],
            "area": (columns.areas[here] * share).astype(np.float32),
            "image_id": columns.image_ids[index],
            "size": np.array(size, np.int64),
            "placement": placement(size, shape),
        }
        if self.masks:
            spans = zip(columns.segmentations[here], names, strict=True)
            masks = [mask_of(self._places[span], size, f"{where}: {name}") for span, name in spans]
            item["masks"] = nearest(np.array(masks, bool).reshape(-1, *size), shape)
        if self.keypoints:
            item["keypoints"] = self._keypoints(columns.keypoints[here], names, where, size, shape)
        return item

    def _keypoints(
        self, spans: np.ndarray, names: Sequence[str], where: str, size: tuple[int, int], shape: tuple[int, ...]
    ) -> np.ndarray:
        """float32 [N, P, 3]; zeros for an annotation without keypoints."""
        count = 3 * len(self.index.keypoint_names)
        points = np.zeros((len(spans), count), np.float32)
        for row, (span, name) in enumerate(zip(spans, names, strict=True)):
            values = self._places[span]
            if values is None:
                continue
            if not isinstance(values, list) or len(values) != count or not _are_numbers(values):
                raise TrainerError(
                    "the keypoints of an annotation don't match its category",
                    where=f"{where}: {name}",
                    found=f"{len(values)} values" if isinstance(values, list) else repr(values)[:80],
                    expected=f"{count} numbers: x, y and visibility of {len(self.index.keypoint_names)} points",
                )
            points[row] = values
        triples = points.reshape(len(spans), -1, 3)
        triples[..., :2] = scaled(triples[..., :2], size, shape)
        return triples


def _are_numbers(values: Sequence[object]) -> bool:
    return all(isinstance(value, int | float) for value in values)
