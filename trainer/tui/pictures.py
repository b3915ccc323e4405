"""Pictures on a terminal: half-blocks, two pixels a cell, with boxes over them; shades where there is no colour."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.tui.glyphs import Glyphs
from trainer.tui.text import Line, Span, printable

Pixels = NDArray[np.uint8]

MOST_PIXELS = 1024 * 1024
"""A larger picture is made smaller as it is read: no terminal shows more."""

MOST_TEXT = 20_000
BOX_COLOURS = ((0, 158, 115), (230, 159, 0), (86, 180, 233), (204, 121, 167), (240, 228, 66), (213, 94, 0))
"""Okabe and Ito's, which people who see colours differently can tell apart."""


@dataclass(frozen=True)
class Sample:
    """What is in a sample's file: a picture (uint8 [H, W, 3]) or a text; `annotations` is the JSON beside it.

    `size` is the picture's (height, width) before it was made smaller: boxes are in its pixels.
    """

    image: Pixels | None = None
    text: str = ""
    size: tuple[int, int] = (1, 1)
    annotations: Mapping[str, Any] = field(default_factory=dict)


def read_sample(path: Path) -> Sample | None:
    """The sample in a file; None where it is missing or damaged."""
    if path.suffix != ".png":
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return Sample(text=file.read(MOST_TEXT))
        except OSError:
            return None
    from PIL import Image

    try:
        with Image.open(path) as image:
            size = image.height, image.width
            picture = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    scale = (MOST_PIXELS / (size[0] * size[1])) ** 0.5
    if scale < 1:
        picture = picture.resize((max(1, int(size[1] * scale)), max(1, int(size[0] * scale))), Image.Resampling.BOX)
    return Sample(np.asarray(picture), size=size, annotations=_annotations(path.with_suffix(".json")))


def draw_picture(
    sample: Sample,
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    has_colour: bool,
    has_annotations: bool,
    has_labels: bool,
) -> list[Line]:
    """The picture as large as it fits into `height` lines of `width` cells, its proportions kept."""
    from PIL import Image

    assert sample.image is not None
    scale = min(width / sample.size[1], 2 * height / sample.size[0])
    columns, rows = max(1, int(sample.size[1] * scale)), max(2, int(sample.size[0] * scale) // 2 * 2)
    resized = Image.fromarray(sample.image).resize((columns, rows), Image.Resampling.BOX if scale < 1 else 0)
    pixels = np.array(resized)
    labels: dict[tuple[int, int], str] = {}
    if has_annotations:
        for index, (box, words) in enumerate(boxes_of(sample.annotations)):
            edges = [round(edge * scale) for edge in box]
            outline(pixels, edges, BOX_COLOURS[index % len(BOX_COLOURS)])
            if has_labels and words:
                row, column = max(0, edges[1] // 2), max(0, edges[0])
                labels.update({(row, column + offset): letter for offset, letter in enumerate(words)})
    if has_colour and glyphs.half:
        return _half_blocks(pixels, labels, glyphs)
    return _shades(pixels, labels, glyphs)


def boxes_of(annotations: Mapping[str, Any]) -> list[tuple[tuple[float, ...], str]]:
    """The boxes (left, top, right, bottom) that a sample's JSON has, each with its class and score in words."""
    boxes, classes = annotations.get("boxes"), annotations.get("classes")
    scores = annotations.get("scores")
    found = []
    for index, box in enumerate(boxes if isinstance(boxes, list) else ()):
        if not (isinstance(box, list) and len(box) == 4 and all(isinstance(edge, int | float) for edge in box)):
            continue
        words = [str(classes[index])] if isinstance(classes, list) and index < len(classes) else []
        if isinstance(scores, list) and index < len(scores) and isinstance(scores[index], int | float):
            words.append(f"{scores[index]:.2f}")
        found.append((tuple(float(edge) for edge in box), printable(" ".join(words))))
    return found


def outline(pixels: Pixels, edges: list[int], colour: tuple[int, int, int]) -> None:
    """Draw a box's border into the picture; what lies outside is left out."""
    rows, columns = pixels.shape[:2]
    left, right = (min(max(edge, 0), columns - 1) for edge in (edges[0], edges[2] - 1))
    top, bottom = (min(max(edge, 0), rows - 1) for edge in (edges[1], edges[3] - 1))
    if right < left or bottom < top:
        return
    pixels[[top, bottom], left : right + 1] = colour
    pixels[top : bottom + 1, [left, right]] = colour


def _half_blocks(pixels: Pixels, labels: Mapping[tuple[int, int], str], glyphs: Glyphs) -> list[Line]:
    """The upper pixel of a cell is its foreground, the lower one its background; runs of equal cells are one span."""
    packed = (pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)).tolist()
    lines = []
    for row in range(len(packed) // 2):
        spans: list[Span] = []
        for column, (upper, lower) in enumerate(zip(packed[2 * row], packed[2 * row + 1], strict=True)):
            letter = labels.get((row, column))
            role = f"#ffffff on #{lower:06x}" if letter else f"#{upper:06x} on #{lower:06x}"
            text = letter or glyphs.half
            if spans and spans[-1][1] == role:
                spans[-1] = (spans[-1][0] + text, role)
            else:
                spans.append((text, role))
        lines.append(tuple(spans))
    return lines


def _shades(pixels: Pixels, labels: Mapping[tuple[int, int], str], glyphs: Glyphs) -> list[Line]:
    """Brightness alone, a character a cell."""
    grey = pixels.astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    cells = grey.reshape(len(grey) // 2, 2, -1).mean(axis=1) / 256
    shades = np.minimum((cells * len(glyphs.shades)).astype(int), len(glyphs.shades) - 1).tolist()
    return [
        (("".join(labels.get((row, column)) or glyphs.shades[shade] for column, shade in enumerate(line)), "text"),)
        for row, line in enumerate(shades)
    ]


def _annotations(path: Path) -> Mapping[str, Any]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
