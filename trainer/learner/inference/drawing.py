"""Draws results into images with Pillow: boxes, masks, labels."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainer import TrainerError
from trainer.rundir import replacing

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

GOLDEN = 0.618033988749895
"""The hue step, as a fraction of the color circle, with which consecutive colors differ clearly."""

COVER = 0.45
"""The opacity of mask colors."""

FORMATS = {
    ".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP", ".bmp": "BMP", ".tif": "TIFF", ".tiff": "TIFF"
}  # fmt: skip


def color(number: int) -> tuple[int, int, int]:
    """A different color for each number."""
    red, green, blue = colorsys.hsv_to_rgb((0.08 + number * GOLDEN) % 1, 0.75, 1.0 if number % 2 == 0 else 0.8)
    return round(255 * red), round(255 * green), round(255 * blue)


def colors(count: int) -> np.ndarray:
    """The colors of the first `count` numbers, uint8 [count, 3]."""
    return np.array([color(number) for number in range(count)], np.uint8).reshape(-1, 3)


def with_boxes(picture: np.ndarray, boxes: np.ndarray, captions: Sequence[str] | None) -> np.ndarray:
    """The image with boxes in different colors; captions are placed above or inside if they fit."""
    image, draw = _canvas(picture)
    width = line_width(picture.shape)
    for number, (left, top, right, bottom) in enumerate(boxes.tolist()):
        if right > left and bottom > top:
            draw.rectangle((left, top, right, bottom), outline=color(number), width=width)
    if captions is not None:
        _write_captions(image, draw, boxes, captions)
    return np.asarray(image)


def with_segments(
    picture: np.ndarray, segments: np.ndarray, boxes: np.ndarray, captions: Sequence[str] | None
) -> np.ndarray:
    """The image with objects covered by different colors, and their edges."""
    covered = _covered(
        picture, segments, np.concatenate([np.zeros((1, 3), np.uint8), colors(len(boxes))]), segments > 0
    )
    if captions is None:
        return covered
    image, draw = _canvas(covered)
    _write_captions(image, draw, boxes, captions)
    return np.asarray(image)


def with_labels(picture: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """The image with each pixel covered by its class's color, and the class names where they fit.

    A first class named background is not drawn.
    """
    shown = labels < max(len(names), 1)
    if names and names[0] == "background":
        shown &= labels > 0
    covered = _covered(picture, labels, colors(256), shown)
    present = np.unique(labels[shown]).tolist()
    return _with_legend(covered, [(names[number], color(number)) for number in present]) if len(names) > 1 else covered


def captioned(picture: np.ndarray, caption: str) -> np.ndarray:
    """The image with a line of text in its upper left corner, if it fits."""
    image, draw = _canvas(picture)
    font = _font(picture.shape)
    left, top, right, bottom = draw.textbbox((2, 2), caption, font=font)
    if right < picture.shape[1] and bottom < picture.shape[0]:
        draw.rectangle((left - 2, top - 2, right + 2, bottom + 2), fill=(0, 0, 0))
        draw.text((2, 2), caption, fill=(255, 255, 255), font=font)
    return np.asarray(image)


def line_width(shape: Sequence[int]) -> int:
    """Line width in pixels for an image of this shape."""
    return max(1, round(max(shape[:2]) / 400))


def image_of(pixels: np.ndarray) -> Image:
    """uint8 [H, W, 3], [H, W] or [H, W, 1] as a Pillow image."""
    from PIL import Image

    return Image.fromarray(pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)


def write(pixels: np.ndarray, path: Path) -> None:
    """Writes an image atomically.

    Raises:
        TrainerError: the format is unknown, or the file can't be written.
    """
    if path.suffix.lower() not in FORMATS:
        raise TrainerError(
            "unknown image format", where=str(path), found=path.suffix or "no file extension",
            expected=", ".join(sorted(FORMATS)),
        )  # fmt: skip
    try:
        with replacing(path) as aside:
            image_of(pixels).save(aside, FORMATS[path.suffix.lower()])
    except OSError as error:
        raise TrainerError("the image can't be written", where=str(path), found=error.strerror or error) from error


def _covered(picture: np.ndarray, numbers: np.ndarray, palette: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """The image with `shown` pixels mixed with their number's color; edges between two numbers have only that color."""
    mixed = np.where(shown[..., None], (1 - COVER) * picture + COVER * palette[numbers], picture)
    edge = np.zeros(numbers.shape, bool)
    edge[:, 1:] |= numbers[:, 1:] != numbers[:, :-1]
    edge[1:] |= numbers[1:] != numbers[:-1]
    mixed[edge & shown] = palette[numbers[edge & shown]]
    return np.round(mixed).astype(np.uint8)


def _write_captions(image: Image, draw: ImageDraw, boxes: np.ndarray, captions: Sequence[str]) -> None:
    """Draws captions in this order, if they fit inside the image without overlap."""
    font, taken = _font((image.height, image.width)), list[tuple[float, float, float, float]]()
    for number, ((left, top, _, _), caption) in enumerate(zip(boxes.tolist(), captions, strict=True)):
        _, _, wide, high = draw.textbbox((0, 0), caption, font=font)
        for place in (top - high - 2, top + 2):
            area = (left, place, left + wide + 4, place + high + 2)
            outside = area[0] < 0 or area[1] < 0 or area[2] > image.width or area[3] > image.height
            if outside or any(_overlap(area, other) for other in taken):
                continue
            taken.append(area)
            draw.rectangle(area, fill=color(number))
            draw.text((left + 2, place), caption, fill=(0, 0, 0), font=font)
            break


def _with_legend(picture: np.ndarray, entries: Sequence[tuple[str, tuple[int, int, int]]]) -> np.ndarray:
    """The image with a legend of colors in the upper left corner; unchanged if it covers more than half of a side."""
    image, draw = _canvas(picture)
    font = _font(picture.shape)
    boxes = [draw.textbbox((0, 0), name, font=font) for name, _ in entries]
    wide, high = (max((box[axis] for box in boxes), default=0) + 6 for axis in (2, 3))
    if 2 * wide > picture.shape[1] or 2 * high * len(entries) > picture.shape[0]:
        return picture
    for row, (name, fill) in enumerate(entries):
        draw.rectangle((0, row * high, wide, (row + 1) * high), fill=fill)
        draw.text((3, row * high + 2), name, fill=(0, 0, 0), font=font)
    return np.asarray(image)


def _overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _canvas(picture: np.ndarray) -> tuple[Image, ImageDraw]:
    from PIL import ImageDraw

    image = image_of(picture).copy()
    return image, ImageDraw.Draw(image)


def _font(shape: Sequence[int]) -> FreeTypeFont | ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(max(10, round(max(shape[:2]) / 45)))
