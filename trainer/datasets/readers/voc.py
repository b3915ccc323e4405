"""Pascal VOC (Everingham et al. 2010): an XML file of boxes per image."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import Item
from trainer.datasets.paths import missing_file, within
from trainer.datasets.readers.boxes import checked_boxes, scaled
from trainer.datasets.readers.files import files_in, read_text, without_repeats
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.picture_reader import PictureReader
from trainer.datasets.transforms.objects import placement

_EDGES = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, slots=True)
class VocImage:
    """The contents of one XML file."""

    file_name: str
    size: tuple[int, int] | None
    """(height, width); None if the file doesn't contain it."""
    names: tuple[str, ...]
    boxes: tuple[tuple[float, float, float, float], ...]
    """x_min, y_min, x_max, y_max as written."""
    difficult: tuple[bool, ...]


class VocDataset(PictureReader):
    """Items {image, boxes, labels, crowd, area, image_id, size, placement}; `crowd` marks objects with the flag
    difficult.

    Args:
        root: the data folder; the other paths are relative to it.
        images: folder of the images.
        annotations: folder of the XML files.
        image_set: text file with one name per line (`ImageSets/Main/train.txt`); None: every XML file.
        classes: class names in the order of the labels; None: the names that occur, sorted.
        one_based: whether pixels count from 1 and x_max, y_max are the last pixel of the box, as in the original data;
            otherwise coordinates are used unchanged, as most tools write them.
        channels: 1 or 3, the number of channels of every image; None: as in each file.

    Raises:
        TrainerError: a folder or the image set is missing.
    """

    def __init__(
        self,
        root: Path,
        *,
        images: str = "JPEGImages",
        annotations: str = "Annotations",
        image_set: str | None = None,
        classes: Sequence[str] | None = None,
        one_based: bool = False,
        channels: Literal[1, 3] | None = 3,
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(channels)
        self.images, self.annotations, self.one_based = root / images, root / annotations, one_based
        if image_set is None:
            self.names = [
                name.removesuffix(".xml")
                for name in files_in(self.annotations, (".xml",), below=True, progress=opening.progress)
            ]
        else:
            lines = [line.split()[0] for line in read_text(root / image_set).splitlines() if line.strip()]
            self.names = without_repeats(lines, root / image_set, opening)
        self.object_counts = np.zeros(len(self.names), np.int64)
        """int64 [N]: number of objects of each image; 0 if its XML file is unreadable."""
        self._image_paths = [self.source(index) for index in range(len(self.names))]
        occurring = self._read_all(opening)
        self.class_names: Sequence[str] = tuple(classes) if classes is not None else occurring
        self._labels = {name: label for label, name in enumerate(self.class_names)}

    def shared_settings(self) -> Mapping[str, Any]:
        """The settings that other splits must share."""
        return {"classes": self.class_names}

    def __len__(self) -> int:
        return len(self.names)

    def source(self, index: int) -> str:
        return str(self.annotations / f"{self.names[index]}.xml")

    def image_path(self, index: int) -> str:
        return self._image_paths[index]

    def __getitem__(self, index: int) -> Item:
        where = self.source(index)
        record = self.annotation(index)
        labels = self.labels_of(record, where)
        picture = self.picture(within(self.images, record.file_name, where), where, record.size)
        shape, size = picture.pixels.shape, picture.size
        boxes = np.array(record.boxes, np.float64).reshape(-1, 4)
        if self.one_based:
            boxes[:, :2] -= 1
        numbered = [f"object {number} ({name})" for number, name in enumerate(record.names)]
        boxes = scaled(checked_boxes(boxes, size, where, numbered), size, shape)
        return {
            "image": picture.pixels,
            "boxes": boxes,
            "labels": labels,
            "crowd": np.array(record.difficult, bool),
            "area": (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]),
            "image_id": np.array(index, np.int64),
            "size": np.array(size, np.int64),
            "placement": placement(size, shape),
        }

    def labels_of(self, record: VocImage, where: str) -> np.ndarray:
        """int64 [N]: the classes of an image's objects. Raises `TrainerError` for an unknown class."""
        unknown = [name for name in record.names if name not in self._labels]
        if unknown:
            raise TrainerError(
                "unknown class of an object",
                where=where,
                found=unknown[0],
                expected=", ".join(self.class_names),
            )
        return np.array([self._labels[name] for name in record.names], np.int64)

    def annotation(self, index: int) -> VocImage:
        """The contents of an item's XML file. Raises `TrainerError` if it is missing or not in VOC's format."""
        return read_voc(within(self.annotations, f"{self.names[index]}.xml", str(self.annotations)))

    def _read_all(self, opening: Opening) -> tuple[str, ...]:
        """The classes that occur, sorted, from one pass over all XML files. An unreadable file is reported as an item
        later.
        """
        found: set[str] = set()
        for index in range(len(self)):
            try:
                record = self.annotation(index)
            except TrainerError:
                continue
            found.update(record.names)
            self.object_counts[index] = len(record.names)
            self._image_paths[index] = str(self.images / record.file_name)
            if opening.progress is not None and (index + 1) % 1000 == 0:
                opening.progress(index + 1, len(self))
        return tuple(sorted(found))


def read_voc(path: Path) -> VocImage:
    """Reads an XML file of Pascal VOC.

    Raises:
        TrainerError: the file is missing or not XML, or an object has no name or no box of four numbers.
    """
    try:
        tree = ElementTree.fromstring(path.read_bytes())
    except FileNotFoundError:
        raise missing_file(path) from None
    except ElementTree.ParseError as error:
        raise TrainerError("the file is not XML, or truncated", where=str(path), found=error) from None
    except OSError as error:
        raise TrainerError("the file can't be read", where=str(path), found=error.strerror) from error
    if tree.tag != "annotation":
        raise TrainerError(
            "not a Pascal VOC annotation", where=str(path), found=f"<{tree.tag}>", expected="<annotation>"
        )
    objects = tree.findall("object")
    size = tree.find("size")
    return VocImage(
        file_name=(tree.findtext("filename") or "").strip() or f"{path.stem}.jpg",
        size=None if size is None else _size(size, path),
        names=tuple(_name(one, path, number) for number, one in enumerate(objects)),
        boxes=tuple(_box(one, path, number) for number, one in enumerate(objects)),
        difficult=tuple((one.findtext("difficult") or "0").strip() == "1" for one in objects),
    )


def _size(element: ElementTree.Element, path: Path) -> tuple[int, int] | None:
    try:
        height, width = (int((element.findtext(tag) or "0").strip()) for tag in ("height", "width"))
    except ValueError:
        raise TrainerError(
            "the size is not a number", where=str(path), expected="<size> with <width> and <height>"
        ) from None
    return (height, width) if height and width else None


def _name(element: ElementTree.Element, path: Path, number: int) -> str:
    name = (element.findtext("name") or "").strip()
    if not name:
        raise TrainerError("an object has no name", where=f"{path}: object {number}", expected="<name>")
    return name


def _box(element: ElementTree.Element, path: Path, number: int) -> tuple[float, float, float, float]:
    texts = [element.findtext(f"bndbox/{edge}") for edge in _EDGES]
    try:
        x_min, y_min, x_max, y_max = (float(text or "") for text in texts)
    except ValueError:
        raise TrainerError(
            "an object has no box of four numbers",
            where=f"{path}: object {number}",
            found=", ".join(f"{edge} {text}" for edge, text in zip(_EDGES, texts, strict=True)),
            expected="<bndbox> with <xmin>, <ymin>, <xmax>, <ymax>",
        ) from None
    return x_min, y_min, x_max, y_max
