"""Transforms: one chain compared with the same work in Pillow alone, and a table of the time of each transform.

python benchmarks/transforms.py [augmentation] [--json] [--rounds N]
python benchmarks/transforms.py --table

The figure is the time to transform a 640x480 image to 224x224 by a random resized crop, a flip and color jitter in one
process: ours from array to array, Pillow's from its image to an array. The table has microseconds per item for 640x480
and 224x224 images: with a label, with eight boxes, and with eight boxes and masks.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time

import numpy as np
from harness import Figure, run_figures
from PIL import Image, ImageEnhance

from trainer.datasets import Item, ItemDraws, Pipeline
from trainer.datasets import transforms as t

ITEMS = 8
OBJECTS = 8
SIZES = ((480, 640), (224, 224))


class Made:
    """Smooth images in memory."""

    class_names = tuple("abcdefghij")

    def __init__(self, size: tuple[int, int], *, boxes: bool = False, masks: bool = False) -> None:
        self.items = [_item(size, seed, boxes, masks) for seed in range(ITEMS)]

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> Item:
        return self.items[index]

    def source(self, index: int) -> str:
        return f"made[{index}]"


def _item(size: tuple[int, int], seed: int, boxes: bool, masks: bool) -> Item:
    rng = np.random.default_rng(seed)
    height, width = size
    coarse = Image.fromarray(rng.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8))
    item = {
        "image": np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)),
        "label": np.int64(seed),
        "labels_hot": np.eye(10, dtype=np.float32)[seed],
    }
    if boxes:
        corners, extents = rng.uniform(0, 0.6, (OBJECTS, 2)), rng.uniform(0.1, 0.4, (OBJECTS, 2))
        item["boxes"] = np.float32(np.concatenate([corners, corners + extents], 1) * [width, height, width, height])
        item["labels"] = np.arange(OBJECTS)
        item["crowd"] = np.zeros(OBJECTS, bool)
        item["area"] = np.float32(extents.prod(1) * width * height)
    if masks:
        rows, columns = np.arange(height)[:, None], np.arange(width)
        item["masks"] = np.stack([
            (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
            for left, top, right, bottom in item["boxes"]
        ])  # fmt: skip
    return item


CROP = t.RandomResizedCrop((224, 224))
FLIP = t.HorizontalFlip()
JITTER = 0.4


def _timed(make, calls: int = 60) -> float:
    """Returns microseconds per call; calls are numbered from 0."""
    start = time.perf_counter()
    for number in range(calls):
        make(number)
    return 1e6 * (time.perf_counter() - start) / calls


@functools.cache
def _pipeline() -> Pipeline:
    return Pipeline(Made((480, 640)), [CROP, FLIP, t.ColorJitter(JITTER, JITTER, JITTER)])


def ours() -> float:
    return _timed(lambda number: _pipeline().item(number % ITEMS, number))


def pillow(python: str) -> float:
    pictures = [Image.fromarray(item["image"]) for item in _pipeline().dataset.items]

    def item(number: int) -> np.ndarray:
        draws = ItemDraws(0, number, number % ITEMS, 0)
        top, left, (height, width) = CROP.window((480, 640), draws)
        picture = pictures[number % ITEMS].crop((left, top, left + width, top + height))
        picture = picture.resize((224, 224), Image.Resampling.BILINEAR)
        if ItemDraws(0, number, number % ITEMS, 1).chance(0.5):
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        draws = ItemDraws(0, number, number % ITEMS, 2)
        for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            picture = enhance(picture).enhance(draws.uniform(1 - JITTER, 1 + JITTER))
        return np.asarray(picture)

    return _timed(item)


FIGURES = [Figure("augmentation", ours, pillow, bar=1.0, unit="us", needs_peer_python=False)]

EACH = [
    t.Resize((224, 224)),
    t.Letterbox((224, 224)),
    t.ResizeShorterSide(224),
    t.Pad((640, 640)),
    t.RandomCrop((224, 224)),
    t.RandomResizedCrop((224, 224)),
    t.RandomIoUCrop(),
    t.HorizontalFlip(probability=1.0),
    t.VerticalFlip(probability=1.0),
    t.Rotate(10.0),
    t.Affine((0.8, 1.2), shift=0.1, degrees=10, shear=5),
    t.Perspective(0.3),
    t.ColorJitter(0.4, 0.4, 0.4, 0.1),
    t.Grayscale(),
    t.GaussianBlur(),
    t.GaussianNoise(),
    t.Cutout(),
    t.Mosaic((224, 224)),
    t.Mixup(),
    t.CutMix(),
    t.CopyPaste(),
    t.OneHot(10),
    t.Normalize(),
]


def table() -> None:
    """Prints microseconds per item, by transform, size and annotations."""
    kinds = [{}, {"boxes": True}, {"boxes": True, "masks": True}]
    data = [Made(size, **kind) for size in SIZES for kind in kinds]
    heads = [f"{width}x{height} {kind}" for height, width in SIZES for kind in ("image", "boxes", "masks")]
    print(f"{'microseconds an item':20}" + "".join(f"{head:>15}" for head in heads))
    for transform in EACH:
        cells = []
        for dataset in data:
            if isinstance(transform, t.CopyPaste) and "boxes" not in dataset[0]:
                cells.append(f"{'-':>15}")
                continue
            pipeline = Pipeline(dataset, [transform])
            values = [_timed(lambda number: pipeline.item(number % ITEMS, number), calls=8) for _ in range(5)]  # noqa: B023
            cells.append(f"{statistics.median(values):15.0f}")
        print(f"{type(transform).__name__:20}" + "".join(cells), flush=True)


if __name__ == "__main__":
    if "--table" in sys.argv[1:]:
        table()
        raise SystemExit(0)
    raise SystemExit(run_figures(FIGURES))
