"""Pictures in all modes that files come in, as training data of each recipe."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIZES = {
    "1-rotated.jpg": (260, 180),
    "2-palette.png": (180, 260),
    "3-sixteen.png": (70, 60),
    "4-cmyk.jpg": (180, 260),
    "5-large.jpg": (220, 300),
}
"""Height and width in pixels, after the rotation that EXIF asks for."""

ROTATED = 6
"""EXIF's orientation of a picture whose first row is its right side."""

SPLITS = ("train", "val")


def write_pictures(folder: Path) -> list[Path]:
    """Photos rotated by EXIF, with a palette, of 16 bits, in CMYK, and large enough for scaled decoding."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    noise = Image.fromarray(random.integers(0, 256, (90, 130, 3), np.uint8)).resize((260, 180))
    files = [folder / name for name in SIZES]
    rotated, palette, sixteen, cmyk, large = files
    exif = Image.Exif()
    exif[0x0112] = ROTATED
    noise.save(rotated, exif=exif)
    noise.quantize(32).save(palette)
    Image.fromarray(random.integers(0, 65536, SIZES[sixteen.name], np.uint16)).save(sixteen)
    noise.convert("CMYK").save(cmyk)
    noise.resize(SIZES[large.name][::-1]).save(large)
    return files


def write_data(recipe: str, root: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Two splits of the pictures as data of a recipe: the validation files in the reader's order, and the overrides by
    which the recipe reads them."""
    reader, write = _LAYOUTS[recipe]
    files: list[Path] = []
    for split in SPLITS:
        files = write(root, split)
    return files, (f"data.root={root}", *([f"data.reader={reader}"] if reader else []))


def _classes(root: Path, split: str) -> list[Path]:
    return [file for name in ("hat", "shoe") for file in write_pictures(root / split / name)]


def _boxes(root: Path, split: str) -> list[Path]:
    files = write_pictures(root / "images" / split)
    (root / "labels" / split).mkdir(parents=True)
    for number, file in enumerate(files):
        (root / "labels" / split / f"{file.stem}.txt").write_text(f"{number % 2} 0.5 0.4 0.3 0.5\n")
    return files


def _masks(root: Path, split: str) -> list[Path]:
    files = write_pictures(root / "images" / split)
    (root / "masks" / split).mkdir(parents=True)
    for file in files:
        rows, columns = np.indices(SIZES[file.name]) // 40
        classes = ((rows + columns) % 5).astype(np.uint8)
        Image.fromarray(classes).save(root / "masks" / split / f"{file.stem}.png")
    return files


def _objects(root: Path, split: str) -> list[Path]:
    files = write_pictures(root / "images" / split)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, file in enumerate(files):
        height, width = SIZES[file.name]
        images.append({"id": number, "file_name": file.name, "height": height, "width": width})
        for left in range(4, width - 30, 60):
            corners = [left, 10, left + 24, 10, left + 24, 50, left, 50]
            annotations.append({
                "id": len(annotations) + 1, "image_id": number, "category_id": 7, "iscrowd": 0, "area": 960,
                "bbox": [left, 10, 24, 40], "segmentation": [corners],
            })  # fmt: skip
    content = {"images": images, "annotations": annotations, "categories": [{"id": 7, "name": "nucleus"}]}
    (root / "annotations").mkdir(exist_ok=True)
    (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    return files


def _pairs(root: Path, split: str) -> list[Path]:
    files = write_pictures(root / "from" / split)
    (root / "to" / split).mkdir(parents=True)
    for file in files:
        down, across = np.indices(SIZES[file.name]) % 256
        Image.fromarray(np.stack([down, across, down ^ across], axis=2).astype(np.uint8)).save(
            root / "to" / split / f"{file.stem}.png"
        )
    return files


_LAYOUTS: dict[str, tuple[str | None, Callable[[Path, str], list[Path]]]] = {
    "digits": ("{name: image_folder, images: '{split}'}", _classes),
    "clothes": (None, _classes),
    "detection": ("{name: yolo, images: 'images/{split}', classes: [cup, pan]}", _boxes),
    "segmentation": (None, _masks),
    "nuclei": (None, _objects),
    "pix2pix": ("{name: pairs, images: 'from/{split}', targets: 'to/{split}'}", _pairs),
}
"""The reader, where it is not the recipe's own, and what writes a split's files."""
