"""Boxes, masks and names over the picture of a sample, a color for each class; read from untrusted JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.tui.glyphs import Glyphs
from trainer.tui.text import Line, printable

Pixels = NDArray[np.uint8]
Color = tuple[int, int, int]

COLORS: tuple[Color, ...] = (
    (0, 158, 115), (230, 159, 0), (86, 180, 233), (204, 121, 167), (240, 228, 66), (213, 94, 0), (0, 114, 178),
)  # fmt: skip
"""The Okabe-Ito palette, whose colors are distinguishable with color blindness."""

NO_CLASS = 255
STRENGTH, WRONG_STRENGTH = 0.5, 0.75
"""Opacity of a mask, and of wrongly predicted pixels."""

WRONG_COLOR: Color = (213, 40, 40)


@dataclass(frozen=True)
class Layers:
    """The layers drawn over a picture; with `errors`, colors show errors instead of classes."""

    boxes: bool = True
    masks: bool = True
    labels: bool = False
    errors: bool = True


@dataclass(frozen=True)
class Annotated:
    """One object: its box (left, top, right, bottom in pixels of the picture), its class, score and color."""

    box: tuple[float, ...]
    name: str
    score: float
    color: Color
    has_score: bool = False

    @property
    def words(self) -> str:
        """Class and score."""
        return " ".join(filter(None, (self.name, f"{self.score:.2f}" if self.has_score else "")))


def annotate(
    pixels: Pixels, annotations: Mapping[str, Any], mask: Pixels | None, size: tuple[int, int], layers: Layers, *,
    colors: Sequence[Color] = (), wrong: NDArray[np.bool_] | None = None,
) -> None:  # fmt: skip
    """Draws masks and boxes into `pixels`, a picture of `size` (height, width) scaled to another size.

    Args:
        colors: colors of the objects, in place of their class colors.
        wrong: pixels of the mask that differ from the ground truth.
    """
    colors = colors if layers.errors else ()
    if layers.masks:
        if mask is not None:
            shown = resized(mask, pixels.shape)
            for number, _ in _mask_classes(annotations, mask):
                _tint(pixels, shown == number, COLORS[number % len(COLORS)])
        if wrong is not None and layers.errors:
            _tint(pixels, resized(wrong, pixels.shape), WRONG_COLOR, WRONG_STRENGTH)
        for index, region in _regions(annotations):
            color = colors[index] if index < len(colors) else _color(annotations, index)
            _tint(pixels, resized(region, pixels.shape) > 0, color)
    if layers.boxes:
        for index, item in enumerate(boxes_of(annotations)):
            outline(pixels, _edges(item, size, pixels.shape), colors[index] if index < len(colors) else item.color)


def overlay(annotations: Mapping[str, Any], mask: Pixels | None, size: tuple[int, int]) -> Pixels | None:
    """All masks as one picture, uint8 [H, W, 4] of `size`, to lay over the sample; None without masks."""
    regions = list(_regions(annotations))
    if mask is None and not regions:
        return None
    picture = np.zeros((*size, 4), np.uint8)
    if mask is not None:
        shown = resized(mask, picture.shape)
        for number, _ in _mask_classes(annotations, mask):
            picture[shown == number] = (*COLORS[number % len(COLORS)], int(255 * STRENGTH))
    for index, region in regions:
        picture[resized(region, picture.shape) > 0] = (*_color(annotations, index), int(255 * STRENGTH))
    return picture


def labels_of(
    annotations: Mapping[str, Any], size: tuple[int, int], shown: tuple[int, ...], layers: Layers
) -> Iterator[tuple[tuple[int, int], str]]:
    """The label of each box, with its (column, row) in a picture of the shape `shown`."""
    for item in boxes_of(annotations) if layers.labels and layers.boxes else ():
        left, top, *_ = _edges(item, size, shown)
        if item.words:
            yield (max(0, left), max(0, top)), item.words


def legend_of(annotations: Mapping[str, Any], mask: Pixels | None, glyphs: Glyphs, layers: Layers) -> Line:
    """The classes of the mask with their colors; empty without a mask or with labels off."""
    if not (layers.labels and layers.masks) or mask is None:
        return ()
    line: Line = ()
    for number, name in _mask_classes(annotations, mask):
        red, green, blue = COLORS[number % len(COLORS)]
        line = (*line, (f"{glyphs.stopped} ", f"#{red:02x}{green:02x}{blue:02x}"), (f"{name}  ", "text"))
    return line


def objects_of(annotations: Mapping[str, Any]) -> list[Annotated]:
    """The objects in a sample's JSON: its boxes or, without boxes, the bounding boxes of its masks."""
    boxes = boxes_of(annotations)
    if boxes:
        return boxes
    found = []
    classes, scores = _listed(annotations, "classes"), _listed(annotations, "scores")
    for index, region in _regions(annotations):
        rows, columns = np.flatnonzero(region.any(axis=1)), np.flatnonzero(region.any(axis=0))
        if len(rows):
            box = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
            found.append(_annotated(annotations, index, [float(edge) for edge in box], classes, scores))
    return found


def boxes_of(annotations: Mapping[str, Any]) -> list[Annotated]:
    """The boxes in a sample's JSON; malformed boxes are left out."""
    classes, scores = _listed(annotations, "classes"), _listed(annotations, "scores")
    return [
        _annotated(annotations, index, box, classes, scores)
        for index, box in enumerate(_listed(annotations, "boxes"))
        if isinstance(box, list) and len(box) == 4 and all(isinstance(edge, int | float) for edge in box)
    ]


def _annotated(
    annotations: Mapping[str, Any], index: int, box: list[Any], classes: list[Any], scores: list[Any]
) -> Annotated:
    has_score = index < len(scores) and isinstance(scores[index], int | float)
    name = printable(str(classes[index])) if index < len(classes) else ""
    score = float(scores[index]) if has_score else 0.0
    return Annotated(tuple(float(edge) for edge in box), name, score, _color(annotations, index), has_score)


def outline(pixels: Pixels, edges: list[int], color: Color) -> None:
    """Draws the border of a box into the picture, clipped to the picture."""
    rows, columns = pixels.shape[:2]
    left, right = (min(max(edge, 0), columns - 1) for edge in (edges[0], edges[2] - 1))
    top, bottom = (min(max(edge, 0), rows - 1) for edge in (edges[1], edges[3] - 1))
    if right < left or bottom < top:
        return
    pixels[[top, bottom], left : right + 1] = color
    pixels[top : bottom + 1, [left, right]] = color


def run_lengths_of(region: Any) -> Pixels | None:
    """The mask (1 inside, uint8 [H, W]) of COCO run lengths; None if they are invalid.

    The runs go down the columns, and the first one is outside: https://cocodataset.org/#format-data.
    """
    if not isinstance(region, dict):
        return None
    try:
        height, width = (int(side) for side in region["size"])
        lengths = [int(length) for length in region["counts"]]
    except (KeyError, TypeError, ValueError):
        return None
    if min(height, width, *lengths, 1) < 0 or sum(lengths) != height * width or height * width > 1 << 26:
        return None
    inside = np.arange(len(lengths)) % 2
    return np.repeat(inside, lengths).astype(np.uint8).reshape(width, height).T


def _regions(annotations: Mapping[str, Any]) -> Iterator[tuple[int, Pixels]]:
    for index, encoded in enumerate(_listed(annotations, "masks")):
        region = run_lengths_of(encoded)
        if region is not None and region.size:
            yield index, region


def _mask_classes(annotations: Mapping[str, Any], mask: Pixels) -> list[tuple[int, str]]:
    """The drawn classes of a mask as (number, name): all except the background and pixels without a class."""
    names = [str(name) for name in _listed(annotations, "class_names")]
    first = 1 if not names or names[0].lower() == "background" else 0
    numbers = (number for number in np.unique(mask).tolist() if first <= number < NO_CLASS)
    return [(number, printable(names[number]) if number < len(names) else str(number)) for number in numbers]


def _color(annotations: Mapping[str, Any], index: int) -> Color:
    """The color of the object's class, by its index in `class_names` or, without them, in this picture's classes."""
    classes = [str(name) for name in _listed(annotations, "classes")]
    if index >= len(classes):
        return COLORS[index % len(COLORS)]
    known = [str(name) for name in _listed(annotations, "class_names")] or list(dict.fromkeys(classes))
    number = known.index(classes[index]) if classes[index] in known else len(known)
    return COLORS[number % len(COLORS)]


def _edges(item: Annotated, size: tuple[int, int], shown: tuple[int, ...]) -> list[int]:
    down, across = shown[0] / size[0], shown[1] / size[1]
    return [round(edge * (down if side % 2 else across)) for side, edge in enumerate(item.box)]


def resized(mask: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The mask [h, w] resized to a picture of `shape` [H, W, …], with the nearest value for each pixel."""
    rows = (np.arange(shape[0]) + 0.5) * mask.shape[0] / shape[0]
    columns = (np.arange(shape[1]) + 0.5) * mask.shape[1] / shape[1]
    return mask[rows.astype(int)][:, columns.astype(int)]


def _tint(pixels: Pixels, inside: NDArray[np.bool_], color: Color, strength: float = STRENGTH) -> None:
    pixels[inside] = (pixels[inside] * (1 - strength) + np.array(color) * strength).astype(np.uint8)


def _listed(annotations: Mapping[str, Any], name: str) -> list[Any]:
    found = annotations.get(name)
    return found if isinstance(found, list) else []
