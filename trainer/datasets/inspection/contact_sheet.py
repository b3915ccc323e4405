"""Draws many items with their annotations into one image: boxes, masks, keypoints, classes, and targets next to them.

Shows the error of an unusable item.
"""

from __future__ import annotations

import colorsys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainer import TrainerError
from trainer.datasets.dataset import Dataset
from trainer.datasets.fields import IGNORED, TARGET, Item

if TYPE_CHECKING:
    from PIL import Image

SIDE, MARGIN, CAPTION = 240, 8, 16
"""In pixels: the longer side of an image, the gap between images, and the height of a caption."""

_LETTER = 6
"""Approximate width of a letter of Pillow's font in pixels."""
_FAULTY = (110, 28, 28)
_BACKGROUND, _INK = (24, 24, 27), (228, 228, 231)


def contact_sheet(dataset: Dataset, indices: Sequence[int], columns: int = 6) -> Image.Image:
    """Draws the items `indices` of a data set of images into one image; shows the error of an unusable item.

    Raises:
        TrainerError: the items have no images.
    """
    from PIL import Image, ImageDraw

    tiles = []
    for index in indices:
        try:
            item = dataset[index]
        except TrainerError as error:
            tiles.append((written(error), Path(dataset.source(index)).name))
            continue
        if "image" not in item:
            raise TrainerError("a contact sheet needs images", where=dataset.source(index), found=", ".join(item))
        tiles.append((drawn(item, dataset.class_names), _caption(item, dataset.class_names)))
    wide = max((tile.width for tile, _ in tiles), default=SIDE)
    columns = max(1, min(columns, len(tiles)))
    rows = -(-len(tiles) // columns)
    cell = wide + MARGIN, SIDE + CAPTION + MARGIN
    sheet = Image.new("RGB", (columns * cell[0] + MARGIN, rows * cell[1] + MARGIN), _BACKGROUND)
    pen = ImageDraw.Draw(sheet)
    for place, (tile, caption) in enumerate(tiles):
        left, top = MARGIN + place % columns * cell[0], MARGIN + place // columns * cell[1]
        sheet.paste(tile, (left, top))
        pen.text((left, top + SIDE + 2), caption[: wide // _LETTER], _INK)
    return sheet


def written(error: TrainerError) -> Image.Image:
    """A tile with the error of an item: the message, what was found and what was expected."""
    from PIL import Image, ImageDraw

    tile = Image.new("RGB", (SIDE, SIDE), _FAULTY)
    parts = [error.message, *(f"{what}: {part}" for what, part in (("found", error.found), ("expected", error.expected))
                              if part is not None)]  # fmt: skip
    lines = [line for part in parts for line in [*textwrap.wrap(str(part), (SIDE - 2 * MARGIN) // _LETTER), ""]]
    ImageDraw.Draw(tile).multiline_text((MARGIN, MARGIN), "\n".join(lines), _INK)
    return tile


def drawn(item: Item, class_names: Sequence[str]) -> Image.Image:
    """An item's image, at most SIDE wide and high, with drawn annotations and its target next to it."""
    from PIL import Image, ImageDraw

    pixels = _rgb(item["image"])
    if "mask" in item:
        pixels = _tinted(pixels, item["mask"])
    for mask, label in zip(item.get("masks", ()), item.get("labels", ()), strict=True) if "masks" in item else ():
        pixels = np.where(mask[..., None], (pixels * 0.5 + np.array(color(int(label))) * 0.5).astype(np.uint8), pixels)
    height, width = pixels.shape[:2]
    factor = SIDE / max(height, width)
    image = _resized(Image.fromarray(pixels), factor)
    pen = ImageDraw.Draw(image)
    crowd = item.get("crowd", np.zeros(len(item.get("boxes", ())), bool))
    for box, label, is_crowd in zip(item.get("boxes", ()), item.get("labels", ()), crowd, strict=True):
        ink = color(int(label))
        left, top, right, bottom = (float(edge) * factor for edge in box)
        pen.rectangle((left, top, max(left, right - 1), max(top, bottom - 1)), outline=ink, width=1 if is_crowd else 2)
        name = class_names[int(label)] if int(label) < len(class_names) else str(label)
        pen.text(
            (left + 3, top + 1), f"{name} (crowd)" if is_crowd else name, ink, stroke_width=1, stroke_fill=(0, 0, 0)
        )
    for x, y, visibility in item.get("keypoints", np.zeros((0, 3))).reshape(-1, 3):
        if visibility > 0:
            x, y = float(x) * factor, float(y) * factor
            pen.ellipse((x - 2, y - 2, x + 2, y + 2), (255, 255, 255), (0, 0, 0))
    if TARGET not in item:
        return image
    target = _rgb(item[TARGET])
    beside = _resized(Image.fromarray(target), SIDE / max(target.shape[:2]))
    both = Image.new("RGB", (image.width + beside.width, max(image.height, beside.height)), _BACKGROUND)
    both.paste(image, (0, 0))
    both.paste(beside, (image.width, 0))
    return both


def color(label: int) -> tuple[int, int, int]:
    """A color per class: hues a golden section apart, so that consecutive classes differ."""
    red, green, blue = colorsys.hsv_to_rgb(label * 0.618034 % 1, 0.65, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)


def _rgb(image: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3]; floats are interpreted as 0 to 1."""
    pixels = image if image.dtype == np.uint8 else (np.clip(image, 0, 1) * 255).astype(np.uint8)
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def _tinted(pixels: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The pixels half covered by the colors of their classes; ignored pixels stay unchanged."""
    present, places = np.unique(mask, return_inverse=True)
    tint = np.array([color(int(label)) for label in present])[places.reshape(mask.shape)]
    mixed = (pixels * 0.5 + tint * 0.5).astype(np.uint8)
    return np.where((mask == IGNORED)[..., None], pixels, mixed)


def _resized(image: Image.Image, factor: float) -> Image.Image:
    size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
    return image.resize(size)


def _caption(item: Item, class_names: Sequence[str]) -> str:
    height, width = item["size"] if "size" in item else item["image"].shape[:2]
    parts = [f"{width}x{height}"]
    if "label" in item:
        label = int(item["label"])
        parts.insert(0, class_names[label] if label < len(class_names) else str(label))
    if "boxes" in item:
        parts.append(f"{len(item['boxes'])} boxes")
    return ", ".join(parts)
