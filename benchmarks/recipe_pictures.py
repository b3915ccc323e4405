"""Draws the pictures of the recipes' READMEs: a run's samples side by side, and the curves of several runs by epoch."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from trainer.tui.annotations import Layers
from trainer.tui.errors import CLASSIFIED, CORRECT, TRUTH, WRONG, is_error
from trainer.tui.pictures import read_sample, render

GAP = 4
WIDTH, HEIGHT, MARGIN = 720, 320, 48
COLORS = ("#1f6fb4", "#d1622b", "#2f8f4e", "#8257a5", "#a08a1e")


CAPTION_HEIGHT, CAPTION_WIDTH = 26, 64
"""Height of the two-line caption below a classified image, and the minimum width that fits it, in pixels."""

LARGEST = 288
"""Maximum length in pixels of the shorter side of a picture in a grid; a single picture may have twice that."""


def grid(files: Sequence[Path], *, widest: int = 900) -> Image.Image:
    """Arranges pictures in rows that form about a square and are at most `widest` pixels wide."""
    pictures = [drawn(file, LARGEST if len(files) > 1 else 2 * LARGEST) for file in files]
    width, height = max(one.width for one in pictures), max(one.height for one in pictures)
    square = round(math.sqrt(len(pictures) * height / width)) or 1
    columns = max(1, min(len(pictures), square, (widest + GAP) // (width + GAP)))
    if any(TRUTH.fullmatch(file.stem) for file in files):  # prediction and ground truth side by side
        columns = max(2, columns - columns % 2)
    rows = math.ceil(len(pictures) / columns)
    whole = Image.new("RGB", (columns * (width + GAP) - GAP, rows * (height + GAP) - GAP), "white")
    for index, picture in enumerate(pictures):
        whole.paste(picture, (index % columns * (width + GAP), index // columns * (height + GAP)))
    return whole


def drawn(file: Path, largest: int) -> Image.Image:
    """Returns a sample's picture with the dashboard's annotations, its shorter side at most `largest` pixels long. The
    caption below has the predicted class and, if that is wrong, the true class.
    """
    if file.suffix == ".txt":
        return written(file.read_text(encoding="utf-8"))
    sample = read_sample(file)
    if sample is None or sample.image is None:
        raise ValueError(f"{file} is not a picture")
    height, width = sample.size
    scale = min(1.0, largest / min(height, width))
    picture = Image.fromarray(render(sample, round(scale * width), round(scale * height), Layers()))
    caption = sample.annotations.get("caption") or ""
    found = CLASSIFIED.fullmatch(caption)
    if found is None or picture.width < CAPTION_WIDTH:
        return picture
    whole = Image.new("RGB", (picture.width, picture.height + CAPTION_HEIGHT), "white")
    whole.paste(picture)
    text = found["prediction"] + (f"\ntrue {found['truth']}" if found["truth"] else "")
    color = WRONG if is_error(caption) else CORRECT
    ImageDraw.Draw(whole).multiline_text(
        (1, picture.height), text, fill=color, font=ImageFont.load_default(10), spacing=2
    )
    return whole


def written(text: str, *, columns: int = 96, lines: int = 24) -> Image.Image:
    """Draws the beginning of a text, black on white."""
    shown = [part for line in text.splitlines() for part in textwrap.wrap(line, columns) or [""]][:lines]
    font = ImageFont.load_default(13)
    size = ImageDraw.Draw(Image.new("RGB", (1, 1))).multiline_textbbox((0, 0), "\n".join(shown), font=font)
    whole = Image.new("RGB", (round(size[2]) + 24, round(size[3]) + 24), "white")
    ImageDraw.Draw(whole).multiline_text((12, 12), "\n".join(shown), fill="#222222", font=font)
    return whole


def curves(series: Mapping[str, Sequence[tuple[float, float]]], title: str) -> Image.Image:
    """Draws lines of (epoch, value), each in its own color, with labeled axes and a legend."""
    whole = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw, font = ImageDraw.Draw(whole), ImageFont.load_default(13)
    points = [point for line in series.values() for point in line]
    last, low, high = max(x for x, _ in points), min(y for _, y in points), max(y for _, y in points)
    scale = high - low or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        across = MARGIN + x / last * (WIDTH - 2 * MARGIN)
        return across, HEIGHT - MARGIN + 12 - (y - low) / scale * (HEIGHT - 2 * MARGIN)

    for part in range(5):
        value = low + scale * part / 4
        draw.line([at(0, value), at(last, value)], fill="#dddddd")
        draw.text((4, at(0, value)[1] - 8), f"{value:.3g}", fill="#444444", font=font)
    for part in range(5):
        draw.text((at(last * part / 4, low)[0] - 8, HEIGHT - 28), f"{last * part / 4:.3g}", fill="#444444", font=font)
    draw.text((MARGIN, 6), f"{title} by epoch", fill="#222222", font=font)
    for place, ((name, line), color) in enumerate(zip(series.items(), COLORS, strict=False)):
        draw.line([at(x, y) for x, y in line], fill=color, width=2)
        draw.text((WIDTH - MARGIN - 70 * (len(series) - place), 6), name, fill=color, font=font)
    return whole
