"""Reads COCO annotation and result files into the columns of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from trainer import TrainerError
from trainer.datasets.readers.coco_index import index_coco
from trainer.datasets.readers.coco_masks import run_lengths
from trainer.datasets.readers.json_file import JsonFile
from trainer.metrics.coco import Detections, Kind, Scene, Truths, area_of

Progress = Callable[[int, int], None]

_MOST_LISTED = 3
_BLOCK = 4096
_RLE_BYTES = bytes(range(48, 112))
_EXPECTED = "a list of results, each with image_id, category_id, score and bbox, segmentation or keypoints"


class _Result(msgspec.Struct, gc=False):
    image_id: int
    category_id: int
    score: float
    bbox: list[float] = []
    segmentation: msgspec.Raw = msgspec.Raw(b"")
    keypoints: list[float] = []


class CocoFiles:
    """A COCO annotation file and the result files that belong to it.

    Raises:
        TrainerError: the file can't be read, is not in COCO's format, or contains invalid records.
    """

    def __init__(self, path: Path, kind: Kind, progress: Progress | None = None) -> None:
        self.path, self.kind = path, kind
        self.index = index = index_coco(path, progress)
        if index.problems:
            problems = [problem for row in sorted(index.problems) for problem in index.problems[row]]
            more = f"; and {len(problems) - _MOST_LISTED} more" if len(problems) > _MOST_LISTED else ""
            raise TrainerError(
                "some annotations are invalid", where=str(path), found="; ".join(problems[:_MOST_LISTED]) + more
            )
        self._size_of = dict(zip(index.image_ids.tolist(), index.sizes.tolist(), strict=True))
        self.scene = Scene(np.sort(index.image_ids), index.category_ids, tuple(index.category_names))

    def truths(self, progress: Progress | None = None) -> Truths:
        """All annotations; those of one image are in file order. `progress` receives the number of masks done and the
        total.
        """
        index = self.index
        image = index.image_ids[index.image_rows()]
        masks = keypoints = None
        if self.kind == "segm":
            parts = self._parts(index.segmentations)
            rows = zip(parts, image.tolist(), index.ids.tolist(), strict=True)
            masks = []
            for part, one, identity in rows:
                masks.append(self._mask(part, one, f"annotation {identity} of {self.path}"))
                _tell(progress, len(masks), len(parts))
        elif self.kind == "keypoints":
            keypoints = _points([part or [] for part in self._parts(index.keypoints)], str(self.path))
        return Truths(
            image, index.category_ids[index.labels], index.areas, index.crowd, index.boxes, masks, keypoints, index.ids
        )  # fmt: skip

    def detections(self, path: Path, progress: Progress | None = None) -> Detections:
        """Reads a result file as pycocotools' `loadRes` does: areas are computed from boxes if the results have
        boxes.
        """
        source = JsonFile(path)
        results = source.decode(list[_Result], _EXPECTED)
        # the first result shows which fields the file has
        has_boxes = bool(results and results[0].bbox)
        needed = {"bbox": "bbox", "segm": "segmentation", "keypoints": "keypoints"}[self.kind]
        boxes = masks = keypoints = None
        if has_boxes:
            boxes = self._boxes(results, path)
        if self.kind == "segm" or not has_boxes:
            masks = self._masks(results, path, progress)
        if self.kind == "keypoints":
            keypoints = _points([result.keypoints for result in results], str(path))
        if not results:
            boxes = np.zeros((0, 4))
        if boxes is None and masks is None and keypoints is None:
            raise TrainerError(f"the results have no {needed}", where=str(path), expected=_EXPECTED)
        area = area_of(boxes, masks, keypoints)
        if self.kind == "bbox" and boxes is None:
            from pycocotools import mask as coding

            boxes = np.asarray(coding.toBbox(masks), np.float64)
        return Detections(
            np.array([result.image_id for result in results], np.int64),
            np.array([result.category_id for result in results], np.int64),
            np.array([result.score for result in results], np.float64),
            area, boxes, masks, keypoints,
        )  # fmt: skip

    def _boxes(self, results: Sequence[_Result], path: Path) -> np.ndarray:
        for row, result in enumerate(results):
            if len(result.bbox) != 4:
                raise TrainerError(
                    "a box has the wrong form", where=f"{path}: [{row}].bbox", found=result.bbox,
                    expected="x, y, width and height in pixels",
                )  # fmt: skip
        return np.array([result.bbox for result in results], np.float64).reshape(-1, 4)

    def _masks(self, results: Sequence[_Result], path: Path, progress: Progress | None) -> list[dict[str, Any]] | None:
        """The masks of results, or their boxes as masks; None if a result has neither, and for keypoint results."""
        if self.kind == "keypoints" and results and results[0].keypoints:
            return None
        masks = []
        for row, result in enumerate(results):
            part = msgspec.json.decode(result.segmentation) if len(memoryview(result.segmentation)) else None
            if part is None and len(result.bbox) == 4:
                x, y, width, height = result.bbox
                part = [[x, y, x, y + height, x + width, y + height, x + width, y]]
            if part is None:
                return None
            masks.append(self._mask(part, result.image_id, f"{path}: [{row}].segmentation"))
            _tell(progress, len(masks), len(results))
        return masks

    def _parts(self, spans: np.ndarray) -> list[Any]:
        """Decodes the JSON values at `spans` of the file; None for an empty span."""
        text = self.path.read_bytes()
        return [msgspec.json.decode(text[start : start + length]) if length else None
                for start, length in spans.tolist()]  # fmt: skip

    def _mask(self, part: Any, image: int, where: str) -> dict[str, Any]:
        """Converts polygons, uncompressed or compressed RLE to compressed RLE."""
        size = self._size_of.get(image)
        if size is None:
            raise TrainerError(
                "a result belongs to an image that is not in the annotations", where=where, found=f"image id {image}",
                hint="Check that the results belong to the same split as the annotations.",
            )  # fmt: skip
        if size == [0, 0] and isinstance(part, dict) and "size" in part:
            size = part["size"]  # the annotation file doesn't contain the image size
        text = part.get("counts") if isinstance(part, dict) else None
        if isinstance(text, str) and part.get("size") == size and _is_whole(text.encode()):
            return {"size": size, "counts": text.encode()}
        return run_lengths(part, (size[0], size[1]), where)


def _is_whole(counts: bytes) -> bool:
    """Whether compressed counts contain only valid bytes and end after a complete number; C code would read past the
    end.
    """
    return bool(counts) and not counts.translate(None, _RLE_BYTES) and not (counts[-1] - 48) & 0x20


def _tell(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None and (done % _BLOCK == 0 or done == total):
        progress(done, total)


def _points(rows: Sequence[Sequence[float]], where: str) -> np.ndarray:
    """Keypoints [N, K, 3]; zeros for a row without keypoints."""
    number = max(map(len, rows), default=0)
    for row, points in enumerate(rows):
        if len(points) % 3 or len(points) not in (0, number):
            raise TrainerError(
                "keypoints have the wrong form", where=f"{where}: row {row}", found=f"{len(points)} numbers",
                expected=f"x, y and visibility in turn{'' if number % 3 else f', {number} numbers'}",
            )  # fmt: skip
    filled = [points if len(points) else [0.0] * number for points in rows]
    return np.array(filled, np.float64).reshape(len(rows), -1, 3) if number else np.zeros((len(rows), 0, 3))
