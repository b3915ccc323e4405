"""The detection recipe on a synthetic data set, small enough to kill and resume it a hundred times.

The images are colored rectangles on noise, in COCO format. Worker processes read them, transforms are random, and
validations evaluate the averaged weights by COCO's rules; this metric selects the best checkpoint.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from killed import Workload
from PIL import Image

SIDE = 64
PICTURES = {"train": 24, "valid": 8, "test": 8}
COLORS = ((220, 40, 40), (40, 200, 60))

SETTINGS = (
    "data.batch_size=4", "data.valid_batch_size=4", "data.max_objects=8", "data.cache_gb=0.01",
    "data.transforms.train=[{name: random_resized_crop, size: 64, scale: [0.5, 1], min_visible: 0.25}, "
    "{name: horizontal_flip}, {name: color_jitter, brightness: 0.2}]",
    "data.transforms.valid=[{name: resize, size: 64}]",
    "options.width=8", "options.blocks=[1, 1, 1, 1]", "options.pyramid_channels=8", "options.head_depth=1",
    "options.candidates=50", "options.detections=20",
    "train.steps=18", "train.epochs=null", "train.log_every_steps=3", "train.ema={decay: 0.9}",
    "schedule={name: constant}", "validate={every_steps: 6, every_epochs: null}",
    "checkpoint={every_steps: 4, every_epochs: null, keep_last: 2, best: {metric: valid/ema/coco/AP, mode: max}}",
    "autotune={mode: off}", "threads=1",
)  # fmt: skip
WORKERS = (("data.workers=2", "data.worker_kind=process"), ("data.workers=1", "data.worker_kind=process"))


def detection(folder: Path, seed: int = 0) -> Workload:
    """Returns the recipe on a synthetic data set, which it writes to `folder`."""
    draw(folder, seed)
    return Workload(("detection", f"data.root={folder}", *SETTINGS), ("float32",), WORKERS, None)


def draw(folder: Path, seed: int) -> None:
    """Writes images with up to three rectangles of two classes, and their annotations."""
    random = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True)
    (folder / "annotations").mkdir()
    for split, count in PICTURES.items():
        images, annotations = list[object](), list[object]()
        for number in range(count):
            pixels = random.integers(90, 130, (SIDE, SIDE, 3)).astype(np.uint8)
            name = f"{split}-{number}.png"
            for _ in range(random.integers(1, 4)):
                kind = int(random.integers(len(COLORS)))
                width, height = map(int, random.integers(12, 28, 2))
                left, top = (int(random.integers(0, SIDE - extent)) for extent in (width, height))
                pixels[top : top + height, left : left + width] = COLORS[kind]
                annotations.append({
                    "id": len(annotations) + 1, "image_id": number + 1, "category_id": kind + 1, "iscrowd": 0,
                    "bbox": [left, top, width, height], "area": width * height,
                })  # fmt: skip
            Image.fromarray(pixels).save(folder / "images" / name)
            images.append({"id": number + 1, "file_name": name, "width": SIDE, "height": SIDE})
        content = {"images": images, "annotations": annotations,
                   "categories": [{"id": 1, "name": "red"}, {"id": 2, "name": "green"}]}  # fmt: skip
        (folder / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
