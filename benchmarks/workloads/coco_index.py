"""Indexes a COCO file once, in a separate process; prints the seconds and the increase of the peak memory in MB.

python benchmarks/workloads/coco_index.py ours|peer FILE
python benchmarks/workloads/coco_index.py write FILE [IMAGES ANNOTATIONS]
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

IMAGES, ANNOTATIONS, CATEGORIES = 100_000, 800_000, 80
OUTLINES = 2000


def write(path: Path, images: int = IMAGES, annotations: int = ANNOTATIONS) -> None:
    """Writes a file like COCO's instances_train2017.json: same fields, polygons of 8 to 39 points, 540 bytes each."""
    draws = np.random.default_rng(0)
    outlines = [
        json.dumps([draws.uniform(0, 400, 2 * points).round(2).tolist()]) for points in draws.integers(8, 40, OUTLINES)
    ]
    owners, categories = draws.integers(0, images, annotations), (draws.zipf(1.3, annotations) - 1) % CATEGORIES
    boxes = draws.uniform(1, 200, (annotations, 4)).round(2)
    areas = (boxes[:, 2] * boxes[:, 3] * 0.6).round(4).tolist()
    chosen = draws.integers(0, OUTLINES, annotations)
    rows = zip(chosen.tolist(), areas, owners.tolist(), boxes.tolist(), categories.tolist(), strict=True)
    address = "http://images.cocodataset.org/train2017"
    with path.open("w") as file:
        file.write('{"info": {"year": 2017}, "licenses": [], "images": [')
        file.write(
            ", ".join(
                f'{{"license": 4, "file_name": "{row:012}.jpg", "coco_url": "{address}/{row:012}.jpg", "height": 480, '
                f'"width": 640, "date_captured": "2013-11-14 17:02:52", "id": {row * 5 + 3}}}'
                for row in range(images)
            )
        )
        file.write('], "annotations": [')
        for number, (outline, area, owner, box, category) in enumerate(rows):
            file.write(
                f'{", " if number else ""}{{"segmentation": {outlines[outline]}, "area": {area}, "iscrowd": 0, '
                f'"image_id": {owner * 5 + 3}, "bbox": {box}, "category_id": {category + 1}, "id": {number + 1}}}'
            )
        names = ", ".join(f'{{"supercategory": "a", "id": {n + 1}, "name": "class {n}"}}' for n in range(CATEGORIES))
        file.write(f'], "categories": [{names}]}}')


def main(who: str, path: Path) -> None:
    """Indexes the file; prints the seconds and the memory."""
    if who == "ours":
        from trainer.datasets.readers import index_coco as index
    else:
        from pycocotools.coco import COCO as index
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        kept = index(str(path))
    seconds = time.perf_counter() - start
    del kept
    print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), *map(int, sys.argv[3:]))
    else:
        main(sys.argv[1], Path(sys.argv[2]))
