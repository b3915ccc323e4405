"""Pictures on a terminal: half-blocks, two pixels a cell; shades on a terminal without color."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.tui.annotations import Color, Layers, Pixels, annotate, labels_of, legend_of
from trainer.tui.glyphs import Glyphs
from trainer.tui.text import Line, Span

MAX_PIXELS = 1024 * 1024
"""A larger picture is scaled down when it is read: no terminal shows more."""

MAX_TEXT = 20_000


@dataclass(frozen=True)
class Sample:
    """The content of a sample's files: a picture or a text.

    Attributes:
        image: uint8 [H, W, 3], None for a text.
        size: (height, width) of the picture before it was scaled down, to which the boxes refer.
        annotations: the content of the JSON file next to it.
        mask: the class of each pixel, uint8 [h, w] of any size.
        colors: colors of its objects, by whether they are correct; empty: the colors of their classes.
        wrong: pixels of the mask that differ from the ground truth, bool of any size.
    """

    image: Pixels | None = None
    text: str = ""
    size: tuple[int, int] = (1, 1)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    mask: Pixels | None = None
    colors: tuple[Color, ...] = ()
    wrong: NDArray[np.bool_] | None = None


def read_sample(path: Path) -> Sample | None:
    """The sample in a file; None if it is missing or damaged."""
    if path.suffix != ".png":
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return Sample(text=file.read(MAX_TEXT), annotations=_annotations(path.with_suffix(".json")))
        except OSError:
            return None
    picture = _read_png(path, "RGB")
    if picture is None:
        return None
    annotations = _annotations(path.with_suffix(".json"))
    mask = annotations.get("mask")
    classes = _read_png(path.parent / Path(mask).name, "L") if isinstance(mask, str) else None
    return Sample(picture[0], size=picture[1], annotations=annotations, mask=None if classes is None else classes[0])


def _read_png(path: Path, mode: str) -> tuple[Pixels, tuple[int, int]] | None:
    """A picture of at most MAX_PIXELS, and its size in the file; None if it is missing or damaged."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            size = image.height, image.width
            picture = image.convert(mode)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    scale = (MAX_PIXELS / (size[0] * size[1])) ** 0.5
    if scale < 1:
        how = Image.Resampling.BOX if mode == "RGB" else Image.Resampling.NEAREST
        picture = picture.resize((max(1, int(size[1] * scale)), max(1, int(size[0] * scale))), how)
    return np.asarray(picture), size


def render(sample: Sample, width: int, height: int, layers: Layers) -> Pixels:
    """The picture scaled to fit `width` by `height` pixels, with its aspect ratio and its annotations."""
    from PIL import Image

    assert sample.image is not None
    scale = min(width / sample.size[1], height / sample.size[0])
    columns, rows = max(1, int(sample.size[1] * scale)), max(1, int(sample.size[0] * scale))
    resized = Image.fromarray(sample.image).resize((columns, rows), Image.Resampling.BOX if scale < 1 else 0)
    pixels = np.array(resized)
    annotate(pixels, sample.annotations, sample.mask, sample.size, layers, colors=sample.colors, wrong=sample.wrong)
    return pixels


def draw_picture(
    sample: Sample, width: int, height: int, glyphs: Glyphs, *, has_color: bool, layers: Layers
) -> list[Line]:
    """The picture scaled to fit `height` lines of `width` cells, with its aspect ratio."""
    legend = legend_of(sample.annotations, sample.mask, glyphs, layers)
    pixels = render(sample, width, 2 * max(1, height - bool(legend)), layers)
    if len(pixels) % 2:
        pixels = pixels[:-1] if len(pixels) > 1 else np.repeat(pixels, 2, axis=0)
    labels: dict[tuple[int, int], str] = {}
    for (x, y), words in labels_of(sample.annotations, sample.size, pixels.shape, layers):
        labels.update({(y // 2, x + offset): letter for offset, letter in enumerate(words)})
    drawn = _half_blocks(pixels, labels, glyphs) if has_color and glyphs.half else _shades(pixels, labels, glyphs)
    return [*drawn, *([legend] if legend else [])]


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
    """Draws only the brightness, as one character per cell."""
    gray = pixels.astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    cells = gray.reshape(len(gray) // 2, 2, -1).mean(axis=1) / 256
    shades = np.minimum((cells * len(glyphs.shades)).astype(int), len(glyphs.shades) - 1).tolist()
    return [
        (("".join(labels.get((row, column)) or glyphs.shades[shade] for column, shade in enumerate(line)), "text"),)
        for row, line in enumerate(shades)
    ]


def _annotations(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
