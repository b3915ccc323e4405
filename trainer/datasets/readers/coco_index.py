"""The index of a COCO annotation file: columns in NumPy arrays, with long parts (masks, keypoints) as positions in the
file.

index = index_coco(Path("instances_val2017.json"))
row = index.image_row(139)                        # images have rows, in the file's order
here = index.of_image(row)                        # slice into the columns of annotations
index.boxes[here], index.labels[here]             # float64 [N, 4] x, y, width, height; int32 [N]
index.category_ids[index.labels[here]]            # the file's sparse ids

Format: https://cocodataset.org/#format-data
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from trainer import TrainerError
from trainer.datasets.readers.json_file import MALFORMED, Count, Id, JsonFile
from trainer.datasets.readers.opening import Progress

_BLOCK = 16_384
_EXPECTED = "an object with the lists images, annotations and categories"
_ANNOTATION = "an annotation with id, image_id, category_id, bbox of four numbers [x, y, width, height]"


@dataclass(frozen=True, slots=True, eq=False)
class CocoIndex:
    """The contents of a COCO annotation file: I images, A annotations (grouped by image, in the file's order), K
    categories.

    Class indices are contiguous: `labels` number the categories in the order of their ids.
    """

    path: Path
    image_ids: np.ndarray
    """int64 [I], in the file's order."""
    sizes: np.ndarray
    """int32 [I, 2]: height and width in pixels; 0 if the file doesn't contain them."""
    file_names: Sequence[str]
    category_ids: np.ndarray
    """int64 [K], ascending."""
    category_names: Sequence[str]
    first: np.ndarray
    """int64 [I + 1]: image row i has the annotations first[i] to first[i + 1]."""
    ids: np.ndarray
    """int64 [A]."""
    labels: np.ndarray
    """int32 [A]: contiguous class indices."""
    boxes: np.ndarray
    """float64 [A, 4]: x, y, width, height in pixels, as in the file."""
    areas: np.ndarray
    """float64 [A]: the annotation's area (of its mask, if it has one)."""
    crowd: np.ndarray
    """bool [A]."""
    segmentations: np.ndarray
    """int64 [A, 2]: start and length of each segmentation in the file; length 0 for none."""
    keypoints: np.ndarray
    """int64 [A, 2]: start and length of each list of keypoints in the file; length 0 for none."""
    visible_keypoints: np.ndarray
    """int32 [A]: number of labeled keypoints of each annotation (the file's num_keypoints)."""
    keypoint_names: Sequence[str] = ()
    problems: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """The errors in the records of an image, by the image's row; an image with errors is unusable."""
    unattached: Sequence[str] = ()
    """Errors of records that belong to no image, as text."""
    stamp: tuple[int, int] = (0, 0)
    """The file's size and modification time when it was indexed: positions are valid only while they match."""

    def __len__(self) -> int:
        return len(self.image_ids)

    @property
    def has_masks(self) -> bool:
        """Whether there are annotations, and each has a segmentation."""
        return len(self.ids) > 0 and bool((self.segmentations[:, 1] > 0).all())

    def of_image(self, row: int) -> slice:
        """The slice of an image's annotations in the columns."""
        return slice(int(self.first[row]), int(self.first[row + 1]))

    def image_rows(self) -> np.ndarray:
        """int64 [A]: the image row of each annotation."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def image_row(self, image_id: int) -> int:
        """The row of an image. Raises `TrainerError` if the file has no such image."""
        found = np.flatnonzero(self.image_ids == image_id)
        if not len(found):
            raise TrainerError("unknown image id", where=str(self.path), found=f"image id {image_id}")
        return int(found[0])


class _Image(msgspec.Struct, gc=False):
    id: Id
    file_name: str
    height: Count = 0
    width: Count = 0


class _Category(msgspec.Struct, gc=False):
    id: Id
    name: str
    keypoints: list[str] = []


class _Annotation(msgspec.Struct, gc=False):
    id: Id
    image_id: Id
    category_id: Id
    bbox: tuple[float, float, float, float]
    area: float | None = None
    iscrowd: int = 0
    segmentation: msgspec.Raw = msgspec.Raw(b"")
    keypoints: msgspec.Raw = msgspec.Raw(b"")
    num_keypoints: Count = 0


class _File(msgspec.Struct, gc=False):
    images: msgspec.Raw
    annotations: msgspec.Raw
    categories: list[_Category]


def index_coco(path: Path | str, progress: Progress | None = None) -> CocoIndex:
    """The index of an annotation file (instances, person keypoints); `progress` receives the number of annotations done
    and the total.

    Raises `TrainerError` for a file that is missing, not JSON, or not in COCO's format. Invalid records are stored in
    `problems` by image, so that other images can be used.
    """
    source = JsonFile(Path(path))
    top = source.decode(_File, _EXPECTED)
    images = _images(source, top.images)
    categories = sorted(top.categories, key=lambda category: category.id)
    category_ids = np.array([category.id for category in categories], np.int64)
    if len(np.unique(category_ids)) != len(category_ids):
        raise TrainerError(
            "two categories have the same id", where=f"{path}: categories", found=_repeated(category_ids)
        )
    problems = _Problems(np.array([image.id for image in images], np.int64))
    columns = _annotations(source, source.records(top.annotations, "annotations"), category_ids, problems, progress)
    rows = columns.pop("rows")
    order = np.argsort(rows, kind="stable")
    first = np.searchsorted(rows[order], np.arange(len(images) + 1))
    return CocoIndex(
        path=Path(path),
        image_ids=problems.image_ids,
        sizes=np.array([(image.height, image.width) for image in images], np.int32).reshape(-1, 2),
        file_names=tuple(image.file_name for image in images),
        category_ids=category_ids,
        category_names=tuple(category.name for category in categories),
        first=first,
        **{name: column[order] for name, column in columns.items()},
        keypoint_names=next((tuple(category.keypoints) for category in categories if category.keypoints), ()),
        problems=problems.by_row,
        unattached=tuple(problems.unattached),
        stamp=source.stamp,
    )


class _Problems:
    """The errors of records, by image."""

    def __init__(self, image_ids: np.ndarray) -> None:
        self.image_ids = image_ids
        self.by_row: dict[int, list[str]] = {}
        self.unattached: list[str] = []
        self._order = np.argsort(image_ids, kind="stable")
        self._sorted = image_ids[self._order]
        _, group, count = np.unique(image_ids, return_inverse=True, return_counts=True)
        for row in np.flatnonzero(count[group] > 1):  # annotations with this id are ambiguous
            self.add(int(row), f"image id {image_ids[row]} is used by another image, too")

    def rows(self, image_ids: np.ndarray) -> np.ndarray:
        """int64: the row of each image; -1 for an unknown image, the first row of images with the same id."""
        if not len(self._sorted):
            return np.full(len(image_ids), -1)
        places = np.minimum(np.searchsorted(self._sorted, image_ids), len(self._sorted) - 1)
        return np.where(self._sorted[places] == image_ids, self._order[places], -1)

    def add(self, row: int, problem: str) -> None:
        if row < 0:
            self.unattached.append(problem)
        else:
            self.by_row.setdefault(row, []).append(problem)


def _images(source: JsonFile, raw: msgspec.Raw) -> list[_Image]:
    try:
        return msgspec.json.decode(raw, type=list[_Image])
    except MALFORMED as error:
        raise source.wrong_shape(error, "images", "an image with id and file_name, height and width") from None


def _annotations(
    source: JsonFile,
    records: list[msgspec.Raw],
    category_ids: np.ndarray,
    problems: _Problems,
    progress: Progress | None,
) -> dict[str, np.ndarray]:
    """The columns of all usable annotations in the file's order, with the `rows` of their images."""
    blocks = []
    decode = msgspec.json.Decoder(_Annotation).decode
    for start in range(0, len(records), _BLOCK):
        block = records[start : start + _BLOCK]
        try:
            good = [decode(record) for record in block]
        except MALFORMED:
            good = _one_by_one(source, block, start, decode, problems)
        blocks.append(_columns(source, good, category_ids, problems))
        if progress is not None:
            progress(start + len(block), len(records))
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]} if blocks else {}
    columns = columns or _columns(source, [], category_ids, problems)
    _note_repeated_ids(columns, problems)
    return columns


def _one_by_one(
    source: JsonFile,
    block: list[msgspec.Raw],
    start: int,
    decode: Callable[[msgspec.Raw], _Annotation],
    problems: _Problems,
) -> list[_Annotation]:
    """The valid annotations of a block; each invalid one becomes a problem of its image."""
    good = []
    for number, record in enumerate(block, start):
        try:
            good.append(decode(record))
        except MALFORMED as error:
            what, where = source.problem(error, record)
            try:
                fields: Any = msgspec.json.decode(record)
            except MALFORMED:
                fields = None
            if not isinstance(fields, dict) or not _is_id(fields.get("image_id")):
                raise source.wrong_shape(error, f"annotations[{number}]", _ANNOTATION, record) from None
            row = int(problems.rows(np.array([fields["image_id"]]))[0])
            place = f" at {where}" if where else ""
            problems.add(row, f"annotation {fields.get('id', number)}: {what}{place} in {source.text(record)}")
    return good


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _columns(
    source: JsonFile, block: list[_Annotation], category_ids: np.ndarray, problems: _Problems
) -> dict[str, np.ndarray]:
    """The columns of annotations, without those of unknown images or categories."""
    boxes = np.array([one.bbox for one in block], np.float64).reshape(-1, 4)
    areas = np.array([np.nan if one.area is None else one.area for one in block], np.float64)
    own_ids = np.array([one.category_id for one in block], np.int64)
    labels = np.searchsorted(category_ids, own_ids)
    is_known = np.isin(own_ids, category_ids)
    image_ids = np.array([one.image_id for one in block], np.int64)
    rows = problems.rows(image_ids)
    for at in np.flatnonzero(~is_known | (rows < 0)):
        what = f"of image {image_ids[at]}, which" if rows[at] < 0 else f"of category {own_ids[at]}, which"
        problems.add(int(rows[at]), f"annotation {block[at].id} is {what} is not in the file")
    columns = {
        "rows": rows,
        "ids": np.array([one.id for one in block], np.int64),
        "labels": labels.astype(np.int32),
        "boxes": boxes,
        "areas": np.where(np.isnan(areas), boxes[:, 2] * boxes[:, 3], areas),
        "crowd": np.array([one.iscrowd for one in block], bool),
        "segmentations": np.array([source.span(one.segmentation) for one in block], np.int64).reshape(-1, 2),
        "keypoints": np.array([source.span(one.keypoints) for one in block], np.int64).reshape(-1, 2),
        "visible_keypoints": np.array([one.num_keypoints for one in block], np.int32),
    }
    keep = is_known & (rows >= 0)
    return columns if keep.all() else {name: column[keep] for name, column in columns.items()}


def _note_repeated_ids(columns: dict[str, np.ndarray], problems: _Problems) -> None:
    order = np.argsort(columns["ids"], kind="stable")
    ids = columns["ids"][order]
    for at in np.flatnonzero(ids[1:] == ids[:-1]):
        for place in order[at : at + 2]:
            problems.add(int(columns["rows"][place]), f"annotation id {ids[at]} is used by two annotations")


def _repeated(ids: np.ndarray) -> str:
    values, counts = np.unique(ids, return_counts=True)
    return ", ".join(f"{value} ({count} times)" for value, count in zip(values, counts, strict=True) if count > 1)
