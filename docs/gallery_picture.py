"""The picture of predictions in the README and the tour: `python docs/gallery_picture.py FILE.jpg`.

It shows parts of the pictures of the recipes `detection` and `segmentation`, which are samples of whole runs, with
the colors of the classes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from trainer.tui.annotations import COLORS

RECIPES = Path(__file__).resolve().parent.parent / "trainer" / "recipes"
WIDTH, HEIGHT, GAP, LINE = 288, 216, 4, 24
INK, PAPER = "#1c1f23", "#ffffff"


@dataclass(frozen=True)
class Part:
    """Tiles of a recipe's picture, by the left and upper edge of each, and the classes in the order of their colors."""

    recipe: str
    title: str
    tiles: tuple[tuple[int, int], ...]
    classes: tuple[str, ...]


PARTS = (
    Part(
        "detection", "Detection: blood cells, FCOS", ((0, 220), (292, 220)),
        ("white blood cell", "red blood cell", "platelet"),
    ),
    Part(
        "segmentation", "Segmentation: satellite images, U-Net", ((0, 36), (0, 948)),
        ("water", "land", "road", "building", "vegetation"),
    ),
)  # fmt: skip


def picture() -> Image.Image:
    """The parts next to each other, each with a title above and its classes below."""
    columns = sum(len(part.tiles) for part in PARTS)
    space = 4 * GAP
    width = columns * (WIDTH + GAP) + (len(PARTS) - 1) * space - GAP
    whole = Image.new("RGB", (width, LINE + HEIGHT + LINE + 4), PAPER)
    draw, font = ImageDraw.Draw(whole), ImageFont.load_default(15)
    left = 0
    for part in PARTS:
        draw.text((left, 2), part.title, fill=INK, font=font)
        at = left
        for color, name in zip(COLORS, part.classes, strict=False):
            draw.rectangle([at, LINE + HEIGHT + 9, at + 12, LINE + HEIGHT + 21], fill=color)
            draw.text((at + 17, LINE + HEIGHT + 6), name, fill=INK, font=font)
            at += 32 + round(draw.textlength(name, font=font))
        with Image.open(RECIPES / part.recipe / f"{part.recipe}.png") as source:
            for x, y in part.tiles:
                whole.paste(source.convert("RGB").crop((x, y, x + WIDTH, y + HEIGHT)), (left, LINE))
                left += WIDTH + GAP
        left += space
    return whole


if __name__ == "__main__":
    picture().save(Path(sys.argv[1]), quality=90, subsampling=0, optimize=True)
