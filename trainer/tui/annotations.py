"""What lies over a sample's picture: boxes, masks and names, a colour a class; read from JSON as it comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.tui.glyphs import Glyphs
from trainer.tui.text import Line, printable

Pixels = NDArray[np.uint8]
Colour = tuple[int, int, int]

COLOURS: tuple[Colour, ...] = (
    (0, 158, 115), (230, 159, 0), (86, 180, 233), (204, 121, 167), (240, 228, 66), (213, 94, 0), (0, 114, 178),
)  # fmt: skip
"""Okabe and Ito's, which people who see colours differently can tell apart."""

NO_CLASS = 255
STRENGTH = 0.5
"""Of a mask's colour over the picture."""


@dataclass(frozen=True)
class Layers:
    """What is drawn over a picture."""

    boxes: bool = True
    masks: bool = True
    labels: bool = False


@dataclass(frozen=True)
class Found:
    """One object: its box (left, top, right, bottom in the picture's pixels), its class and score in words."""

    box: tuple[float, ...]
    words: str
    colour: Colour


def annotate(
    pixels: Pixels, annotations: Mapping[str, Any], mask: Pixels | None, size: tuple[int, int], layers: Layers
) -> None:
    """Draw masks and boxes into the picture `pixels`, which shows one of `size` (height, width) in another size."""
    if layers.masks:
        if mask is not None:
            shown = _resized(mask, pixels)
            for number, _ in _mask_classes(annotations, mask):
                _tint(pixels, shown == number, COLOURS[number % len(COLOURS)])
        for region, colour in _regions(annotations):
            _tint(pixels, _resized(region, pixels) > 0, colour)
    if layers.boxes:
        for found in boxes_of(annotations):
            outline(pixels, _edges(found, size, pixels.shape), found.colour)


def overlay(annotations: Mapping[str, Any], mask: Pixels | None, size: tuple[int, int]) -> Pixels | None:
    """All masks as a picture (uint8 [H, W, 4] of `size`) to be laid over the sample's; None where there are none."""
    regions = list(_regions(annotations))
    if mask is None and not regions:
        return None
    picture = np.zeros((*size, 4), np.uint8)
    if mask is not None:
        shown = _resized(mask, picture)
        for number, _ in _mask_classes(annotations, mask):
            picture[shown == number] = (*COLOURS[number % len(COLOURS)], int(255 * STRENGTH))
    for region, colour in regions:
        picture[_resized(region, picture) > 0] = (*colour, int(255 * STRENGTH))
    return picture


def labels_of(
    annotations: Mapping[str, Any], size: tuple[int, int], shown: tuple[int, ...], layers: Layers
) -> Iterator[tuple[tuple[int, int], str]]:
    """The (column, row) in a picture of the shape `shown` at which words stand, and the words."""
    for found in boxes_of(annotations) if layers.labels and layers.boxes else ():
        left, top, *_ = _edges(found, size, shown)
        if found.words:
            yield (max(0, left), max(0, top)), found.words


def legend_of(annotations: Mapping[str, Any], mask: Pixels | None, glyphs: Glyphs, layers: Layers) -> Line:
    """The classes in the mask with their colours; empty where there is nothing to name."""
    if not (layers.labels and layers.masks) or mask is None:
        return ()
    line: Line = ()
    for number, name in _mask_classes(annotations, mask):
        red, green, blue = COLOURS[number % len(COLOURS)]
        line = (*line, (f"{glyphs.stopped} ", f"#{red:02x}{green:02x}{blue:02x}"), (f"{name}  ", "text"))
    return line


def boxes_of(annotations: Mapping[str, Any]) -> list[Found]:
    """The boxes that a sample's JSON has; those of another form are passed over."""
    boxes, classes = _listed(annotations, "boxes"), _listed(annotations, "classes")
    scores = _listed(annotations, "scores")
    found = []
    for index, box in enumerate(boxes):
        if not (isinstance(box, list) and len(box) == 4 and all(isinstance(edge, int | float) for edge in box)):
            continue
        words = [str(classes[index])] if index < len(classes) else []
        if index < len(scores) and isinstance(scores[index], int | float):
            words.append(f"{scores[index]:.2f}")
        edges = tuple(float(edge) for edge in box)
        found.append(Found(edges, printable(" ".join(words)), _colour(annotations, index)))
    return found


def outline(pixels: Pixels, edges: list[int], colour: Colour) -> None:
    """Draw a box's border into the picture; what lies outside is left out."""
    rows, columns = pixels.shape[:2]
    left, right = (min(max(edge, 0), columns - 1) for edge in (edges[0], edges[2] - 1))
    top, bottom = (min(max(edge, 0), rows - 1) for edge in (edges[1], edges[3] - 1))
    if right < left or bottom < top:
        return
    pixels[[top, bottom], left : right + 1] = colour
    pixels[top : bottom + 1, [left, right]] = colour


def run_lengths_of(region: Any) -> Pixels | None:
    """The mask (1 inside, uint8 [H, W]) that COCO's run lengths describe; None where they describe none.

    The lengths run down the columns, the first outside: https://cocodataset.org/#format-data.
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


def _regions(annotations: Mapping[str, Any]) -> Iterator[tuple[Pixels, Colour]]:
    for index, told in enumerate(_listed(annotations, "masks")):
        region = run_lengths_of(told)
        if region is not None and region.size:
            yield region, _colour(annotations, index)


def _mask_classes(annotations: Mapping[str, Any], mask: Pixels) -> list[tuple[int, str]]:
    """(number, name) of the classes in a mask that are drawn: all but a background and what has none."""
    names = [str(name) for name in _listed(annotations, "class_names")]
    first = 1 if not names or names[0].lower() == "background" else 0
    found = (number for number in np.unique(mask).tolist() if first <= number < NO_CLASS)
    return [(number, printable(names[number]) if number < len(names) else str(number)) for number in found]


def _colour(annotations: Mapping[str, Any], index: int) -> Colour:
    """Of the object's class, by its place among the names or, without any, among the classes of this picture."""
    classes = [str(name) for name in _listed(annotations, "classes")]
    if index >= len(classes):
        return COLOURS[index % len(COLOURS)]
    known = [str(name) for name in _listed(annotations, "class_names")] or list(dict.fromkeys(classes))
    number = known.index(classes[index]) if classes[index] in known else len(known)
    return COLOURS[number % len(COLOURS)]


def _edges(found: Found, size: tuple[int, int], shown: tuple[int, ...]) -> list[int]:
    down, across = shown[0] / size[0], shown[1] / size[1]
    return [round(edge * (down if side % 2 else across)) for side, edge in enumerate(found.box)]


def _resized(mask: Pixels, pixels: Pixels) -> Pixels:
    """The nearest value of the mask for each pixel."""
    rows = (np.arange(pixels.shape[0]) + 0.5) * mask.shape[0] / pixels.shape[0]
    columns = (np.arange(pixels.shape[1]) + 0.5) * mask.shape[1] / pixels.shape[1]
    return mask[rows.astype(int)][:, columns.astype(int)]


def _tint(pixels: Pixels, inside: NDArray[np.bool_], colour: Colour) -> None:
    pixels[inside] = (pixels[inside] * (1 - STRENGTH) + np.array(colour) * STRENGTH).astype(np.uint8)


def _listed(annotations: Mapping[str, Any], name: str) -> list[Any]:
    found = annotations.get(name)
    return found if isinstance(found, list) else []
