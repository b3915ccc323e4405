"""The prediction for one image: a frozen dataclass for each kind of result.

Coordinates are pixels of the original image after its EXIF rotation; boxes are (left, top, right, bottom).
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainer import TrainerError
from trainer.datasets.images import decode
from trainer.learner.inference import drawing
from trainer.learner.inference.finishing import Arrays
from trainer.learner.inference.grouping import run_lengths
from trainer.learner.inference.pipeline import Kind
from trainer.learner.inference.steps import Size

VERSION = 1
"""Version of the format of `to_dict`."""

SHOWN_SIDE = 1024
"""Pixels of the longer side of an image in a notebook."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A prediction for one image.

    Attributes:
        path: path of the file; None for an array.
        size: height and width of the image; (0, 0) if it could not be read.
        names: the model's classes, in the order of their numbers.
        error: the reason for a missing prediction, if invalid input is skipped; None: there is a prediction.
        category_ids: the category ids of the classes in the training data's files, if any.
    """

    kind: ClassVar[Kind]

    path: str | None
    size: Size
    names: tuple[str, ...] = field(default=())
    error: str | None = None
    category_ids: tuple[int, ...] | None = field(default=None)
    picture: np.ndarray | None = field(default=None)
    """The input array, uint8 [H, W, 3]; the image of a file is read again for drawing."""

    def __len__(self) -> int:
        """Number of predicted objects."""
        return 0 if self.error is not None else 1

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON types, with a format version."""
        head = {"version": VERSION, "kind": self.kind, "path": self.path, "size": list(self.size)}
        return {**head, "error": self.error} if self.error is not None else {**head, "error": None, **self._content()}

    def to_coco(self, image_id: int | str | None = None) -> list[dict[str, Any]]:
        """The entries of a COCO results file, with the category ids of the training data.

        Without COCO data these are class numbers from 1 on.

        Args:
            image_id: id of the image in the annotation file; None: the file's name without extension, as a number if
                possible.

        Raises:
            TrainerError: COCO has no results of this kind.
        """
        raise TrainerError("COCO has no results of this kind", found=self.kind, expected="detections or instances")

    def original(self) -> np.ndarray:
        """The original image, uint8 [H, W, 3]. Raises `TrainerError` if its file can't be read any more."""
        if self.picture is not None:
            return self.picture
        if self.path is None:
            raise TrainerError("the result has no image", found=self.error)
        return decode(Path(self.path)).pixels

    def drawn(self) -> np.ndarray:
        """The original image with the drawn result, uint8 [H, W, 3]."""
        return self.original()

    def save(self, path: str | Path) -> None:
        """Writes the original image with the drawn result; the file extension determines the format.

        Raises:
            TrainerError: no prediction, or the file can't be written.
        """
        if self.error is not None:
            raise TrainerError("there is no prediction to draw", where=self.path, found=self.error)
        drawing.write(self.drawn(), Path(path))

    def _content(self) -> dict[str, Any]:
        return {}

    def summary(self) -> str:
        """The result in a few words."""
        return ""

    def __repr__(self) -> str:
        summary = self.summary() if self.error is None else self.error.partition("\n")[0]
        return f"<{type(self).__name__} {self.path or 'of an array'}: {summary}>"

    def _repr_png_(self) -> bytes | None:
        if self.error is not None:
            return None
        image = drawing.image_of(self.drawn())
        image.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        return buffer.getvalue()

    def _repr_html_(self) -> str:
        png = self._repr_png_()
        summary = html.escape(repr(self))
        if png is None:
            return f"<div>{summary}</div>"
        return f'<div><img src="data:image/png;base64,{base64.b64encode(png).decode()}"><div>{summary}</div></div>'

    def _name(self, number: int) -> str:
        return self.names[number] if number < len(self.names) else str(number)

    def _category(self, number: int) -> int:
        return number + 1 if self.category_ids is None else self.category_ids[number]

    def _image_id(self, image_id: int | str | None) -> int | str:
        if image_id is not None:
            return image_id
        stem = Path(self.path).stem if self.path is not None else "0"
        return int(stem) if stem.isdecimal() else stem


@dataclass(frozen=True, eq=False, repr=False)
class Classification(Result):
    """The class of an image.

    Attributes:
        scores: float32 [C], scores of all classes, with a sum of 1.
    """

    kind: ClassVar[Kind] = "classification"

    scores: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))

    @property
    def label(self) -> int:
        """The index of the best class."""
        return int(self.scores.argmax())

    @property
    def class_name(self) -> str:
        """The name of the best class."""
        return self._name(self.label)

    @property
    def score(self) -> float:
        """The best class's score."""
        return float(self.scores[self.label])

    def top(self, count: int = 5) -> list[tuple[str, float]]:
        """The best classes and their scores, the best first."""
        return [(self._name(one), float(self.scores[one])) for one in np.argsort(-self.scores, kind="stable")[:count]]

    def drawn(self) -> np.ndarray:
        return drawing.captioned(self.original(), f"{self.class_name} {self.score:.2f}")

    def _content(self) -> dict[str, Any]:
        scores = {self._name(number): float(score) for number, score in enumerate(self.scores)}
        return {"class": self.label, "name": self.class_name, "score": self.score, "scores": scores}

    def summary(self) -> str:
        return f"{self.class_name} {self.score:.3f}"


@dataclass(frozen=True, eq=False, repr=False)
class TextClass(Classification):
    """The class of a text.

    Attributes:
        text: the text.
    """

    kind: ClassVar[Any] = "text_classification"

    text: str = ""

    def _repr_png_(self) -> None:
        return None

    def _content(self) -> dict[str, Any]:
        return {"text": self.text, **super()._content()}


@dataclass(frozen=True, eq=False, repr=False)
class Detections(Result):
    """Objects with boxes, sorted by decreasing score.

    Attributes:
        boxes: float32 [N, 4]; scores: float32 [N]; classes: int64 [N].
    """

    kind: ClassVar[Kind] = "detections"

    boxes: np.ndarray = field(default_factory=lambda: np.zeros((0, 4), np.float32))
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    classes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The class name of each object."""
        return tuple(self._name(number) for number in self.classes.tolist())

    def __len__(self) -> int:
        return len(self.scores)

    def to_coco(self, image_id: int | str | None = None) -> list[dict[str, Any]]:
        number = self._image_id(image_id)
        return [
            {
                "image_id": number,
                "category_id": self._category(label),
                "bbox": [left, top, right - left, bottom - top],
                "score": score,
            }
            for (left, top, right, bottom), label, score in zip(
                self.boxes.tolist(), self.classes.tolist(), self.scores.tolist(), strict=True
            )
        ]

    def drawn(self) -> np.ndarray:
        return drawing.with_boxes(self.original(), self.boxes, self._captions())

    def _captions(self) -> list[str] | None:
        """The caption of each object; None with a single class."""
        if len(self.names) < 2:
            return None
        return [f"{name} {score:.2f}" for name, score in zip(self.class_names, self.scores.tolist(), strict=True)]

    def _content(self) -> dict[str, Any]:
        rows = zip(self.boxes.tolist(), self.scores.tolist(), self.classes.tolist(), strict=True)
        return {"objects": [
            {"box": box, "score": score, "class": label, "name": self._name(label)} for box, score, label in rows
        ]}  # fmt: skip

    def summary(self) -> str:
        names, counts = np.unique(np.array(self.class_names, dtype=str), return_counts=True)
        return ", ".join(f"{count} {name}" for name, count in zip(names, counts.tolist(), strict=True)) or "nothing"


@dataclass(frozen=True, eq=False, repr=False)
class Instances(Detections):
    """Objects with masks, sorted by decreasing score; masks don't overlap.

    Attributes:
        segments: int32 [H, W]: the object number of each pixel, from 1 on; 0: background.
    """

    kind: ClassVar[Kind] = "instances"

    segments: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int32))

    @property
    def masks(self) -> np.ndarray:
        """The masks of the objects, bool [N, H, W]."""
        return np.equal(self.segments[None], np.arange(1, len(self) + 1)[:, None, None])

    def to_coco(self, image_id: int | str | None = None) -> list[dict[str, Any]]:
        return [
            {**entry, "segmentation": run_lengths(self.segments == number)}
            for number, entry in enumerate(super().to_coco(image_id), start=1)
        ]

    def drawn(self) -> np.ndarray:
        return drawing.with_segments(self.original(), self.segments, self.boxes, self._captions())

    def _content(self) -> dict[str, Any]:
        content = super()._content()
        for number, one in enumerate(content["objects"], start=1):
            one["mask"] = run_lengths(self.segments == number)
        return content


@dataclass(frozen=True, eq=False, repr=False)
class SemanticMask(Result):
    """The class of each pixel.

    Attributes:
        labels: uint8 [H, W].
    """

    kind: ClassVar[Kind] = "semantic"

    labels: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))

    @property
    def shares(self) -> dict[str, float]:
        """The fraction of the image that each class covers."""
        counts = np.bincount(self.labels.ravel(), minlength=len(self.names)) / max(self.labels.size, 1)
        return {self._name(number): float(share) for number, share in enumerate(counts)}

    def drawn(self) -> np.ndarray:
        return drawing.with_labels(self.original(), self.labels, self.names)

    def _content(self) -> dict[str, Any]:
        present = np.unique(self.labels).tolist()
        masks = {self._name(number): run_lengths(self.labels == number) for number in present}
        return {"shares": self.shares, "masks": masks}

    def summary(self) -> str:
        return ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items() if share)


@dataclass(frozen=True, eq=False, repr=False)
class Image(Result):
    """The output image of an image-to-image model.

    Attributes:
        image: uint8 [h, w, C], in the network's resolution, without padding.
    """

    kind: ClassVar[Kind] = "image"

    image: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 3), np.uint8))

    def drawn(self) -> np.ndarray:
        """The predicted image."""
        return np.repeat(self.image, 3, axis=2) if self.image.shape[2] == 1 else self.image

    def _content(self) -> dict[str, Any]:
        height, width, channels = self.image.shape
        return {"image": {"size": [height, width], "channels": channels}}

    def summary(self) -> str:
        return f"{self.image.shape[1]}x{self.image.shape[0]} pixels"


RESULTS: dict[Kind, type[Result]] = {
    one.kind: one for one in (Classification, Detections, Instances, SemanticMask, Image)
}


def result_from(
    kind: Kind,
    arrays: Arrays,
    *,
    path: str | None,
    picture: np.ndarray | None,
    size: Size,
    names: Sequence[str],
    category_ids: Sequence[int] | None,
) -> Result:
    """The result for a pipeline's arrays."""
    found = dict(arrays)
    if kind == "instances":
        found["boxes"] = _boxes_around(found["segments"], len(found["scores"]))
    ids = None if category_ids is None else tuple(category_ids)
    made: Any = RESULTS[kind]
    result: Result = made(path, size, tuple(names), None, ids, picture, **found)
    return result


def _boxes_around(segments: np.ndarray, count: int) -> np.ndarray:
    """float32 [N, 4]: the bounding boxes of objects 1, 2, …, which must not be empty."""
    boxes = np.zeros((count, 4), np.float32)
    rows, columns = np.nonzero(segments)
    numbers = segments[rows, columns] - 1
    for place, (values, end) in enumerate(((columns, 0), (rows, 0), (columns, 1), (rows, 1))):
        extreme = np.full(count, -1 if end else max(segments.shape), np.int64)
        (np.maximum if end else np.minimum).at(extreme, numbers, values + end)
        boxes[:, place] = extreme
    return boxes
