"""Small data sets in the layouts that people have, for tests of detection, reading and training."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 32, 40
BOX = (8, 6, 16, 12)
"""x, y, width and height of the only object of each image."""
COUNTS = {"train": 4, "val": 2}


def image(path: Path, seed: int, size: tuple[int, int] = (HEIGHT, WIDTH)) -> None:
    """Noise with a bright rectangle at BOX."""
    pixels = np.random.default_rng(seed).integers(0, 100, (*size, 3), np.uint8)
    x, y, wide, high = BOX
    pixels[y : y + high, x : x + wide] += 120
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def text(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def split_items(counts: Mapping[str, int] = COUNTS) -> list[tuple[str, str, int]]:
    """(word, stem, seed) of each image; stems are unique over the splits."""
    return [(word, f"{word}{number}", 100 * at + number) for at, (word, count) in enumerate(counts.items())
            for number in range(count)]  # fmt: skip


def coco_file(names: Sequence[str]) -> dict[str, Any]:
    return {
        "images": [{"id": n, "file_name": name, "height": HEIGHT, "width": WIDTH} for n, name in enumerate(names)],
        "annotations": [
            {"id": n, "image_id": n, "category_id": 1, "bbox": list(BOX), "area": BOX[2] * BOX[3], "iscrowd": 0}
            for n in range(len(names))
        ],
        "categories": [{"id": 1, "name": "thing"}],
    }


def xml(name: str) -> str:
    x, y, wide, high = BOX
    edges = f"<xmin>{x}</xmin><ymin>{y}</ymin><xmax>{x + wide}</xmax><ymax>{y + high}</ymax>"
    size = f"<size><width>{WIDTH}</width><height>{HEIGHT}</height><depth>3</depth></size>"
    thing = f"<object><name>thing</name><bndbox>{edges}</bndbox></object>"
    return f"<annotation><filename>{name}</filename>{size}{thing}</annotation>"


def yolo_line() -> str:
    x, y, wide, high = BOX
    return f"0 {(x + wide / 2) / WIDTH} {(y + high / 2) / HEIGHT} {wide / WIDTH} {high / HEIGHT}\n"


def mask(path: Path, *, mode: str = "P") -> None:
    """1 at BOX, 0 around it: as a palette's indices, or as colors."""
    values = np.zeros((HEIGHT, WIDTH), np.uint8)
    x, y, wide, high = BOX
    values[y : y + high, x : x + wide] = 1
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == "P":
        picture = Image.fromarray(values, "P")
        picture.putpalette([0, 0, 0, 255, 0, 0])
    else:
        picture = Image.fromarray(np.array([[0, 0, 0], [255, 0, 0]], np.uint8)[values])
    picture.save(path)


def coco_standard(root: Path) -> None:
    for word, count in COUNTS.items():
        names = [stem + ".png" for of, stem, _ in split_items() if of == word]
        text(root / f"annotations/instances_{word}2017.json", coco_file(names))
        assert len(names) == count
    for word, stem, seed in split_items():
        image(root / f"{word}2017/{stem}.png", seed)


def coco_roboflow(root: Path) -> None:
    for word, folder in (("train", "train"), ("val", "valid")):
        names = [stem + ".png" for of, stem, _ in split_items() if of == word]
        text(root / folder / "_annotations.coco.json", coco_file(names))
        for of, stem, seed in split_items():
            if of == word:
                image(root / folder / f"{stem}.png", seed)
    text(root / "README.roboflow.txt", "exported")


def yolo_ultralytics(root: Path) -> None:
    text(root / "data.yaml", "path: ../datasets/mine\ntrain: images/train\nval: images/val\nnames: {0: thing}\n")
    for word, stem, seed in split_items():
        image(root / f"images/{word}/{stem}.png", seed)
        text(root / f"labels/{word}/{stem}.txt", yolo_line())


def yolo_roboflow(root: Path) -> None:
    text(
        root / "data.yaml",
        "train: ../train/images\nval: ../valid/images\ntest: ../test/images\nnc: 1\nnames: [thing]\n",
    )
    for word, stem, seed in split_items():
        folder = "valid" if word == "val" else word
        image(root / f"{folder}/images/{stem}.png", seed)
        text(root / f"{folder}/labels/{stem}.txt", yolo_line())


def yolo_darknet(root: Path) -> None:
    text(root / "obj.names", "thing\n")
    text(root / "obj.data", "classes = 1\ntrain = data/train.txt\nvalid = data/valid.txt\nnames = data/obj.names\n")
    for word, name in (("train", "train"), ("val", "valid")):
        text(root / f"{name}.txt", "".join(f"data/obj/{stem}.png\n" for of, stem, _ in split_items() if of == word))
    for _, stem, seed in split_items():
        image(root / f"obj/{stem}.png", seed)
        text(root / f"obj/{stem}.txt", yolo_line())


def voc(root: Path) -> None:
    for word in COUNTS:
        text(root / f"ImageSets/Main/{word}.txt", "".join(f"{stem}\n" for of, stem, _ in split_items() if of == word))
    text(root / "ImageSets/Main/trainval.txt", "".join(f"{stem}\n" for _, stem, _ in split_items()))
    for _, stem, seed in split_items():
        image(root / f"JPEGImages/{stem}.png", seed)
        text(root / f"Annotations/{stem}.xml", xml(f"{stem}.png"))


def label_img(root: Path) -> None:
    for _, stem, seed in split_items():
        image(root / f"{stem}.png", seed)
        text(root / f"{stem}.xml", xml(f"{stem}.png"))


def class_splits(root: Path) -> None:
    for number, (word, stem, seed) in enumerate(split_items()):
        image(root / word.capitalize() / ("cat", "dog")[number % 2] / f"{stem}.png", seed)


def class_flat(root: Path) -> None:
    for number, (_, stem, seed) in enumerate(split_items()):
        image(root / ("cat", "dog")[number % 2] / f"{stem}.png", seed)
    text(root / "cat/Thumbs.db", "x")


def csv_labels(root: Path) -> None:
    rows = []
    for number, (_, stem, seed) in enumerate(split_items()):
        image(root / f"{stem}.png", seed)
        rows.append(f"{stem}.png,{('cat', 'dog')[number % 2]}\n")
    text(root / "labels.csv", "filename,label\n" + "".join(rows))


def mask_folders(root: Path) -> None:
    for word, stem, seed in split_items():
        image(root / f"Images/{word}/{stem}.png", seed)
        mask(root / f"Masks/{word}/{stem}.png", mode="RGB")
    text(root / "class_dict.csv", "name,r,g,b\nground,0,0,0\nthing,255,0,0\n")


def mask_suffix(root: Path) -> None:
    for _, stem, seed in split_items():
        image(root / f"{stem}.png", seed)
        mask(root / f"{stem}_mask.png")


def pairs_beside(root: Path) -> None:
    for word, stem, seed in split_items():
        image(root / f"pairs/{word}/{stem}.png", seed, (HEIGHT, 2 * WIDTH))


def pairs_folders(root: Path) -> None:
    for word, stem, seed in split_items():
        image(root / f"A/{word}/{stem}.png", seed)
        image(root / f"B/{word}/{stem}.png", seed + 1000)


LAYOUTS: dict[str, tuple[Callable[[Path], None], str, dict[str, int]]] = {
    "coco": (coco_standard, "coco", {"train": 4, "valid": 2}),
    "coco_roboflow": (coco_roboflow, "coco", {"train": 4, "valid": 2}),
    "yolo_ultralytics": (yolo_ultralytics, "yolo", {"train": 4, "valid": 2}),
    "yolo_roboflow": (yolo_roboflow, "yolo", {"train": 4, "valid": 2}),
    "yolo_darknet": (yolo_darknet, "yolo", {"train": 4, "valid": 2}),
    "voc": (voc, "voc", {"train": 4, "valid": 2}),
    "label_img": (label_img, "voc", {"train": 6}),
    "class_folders_with_splits": (class_splits, "image_folder", {"train": 4, "valid": 2}),
    "class_folders": (class_flat, "image_folder", {"train": 6}),
    "csv_labels": (csv_labels, "table", {"train": 6}),
    "mask_folders": (mask_folders, "segmentation", {"train": 4, "valid": 2}),
    "mask_suffix": (mask_suffix, "segmentation", {"train": 6}),
    "pairs_side_by_side": (pairs_beside, "pairs", {"train": 4, "valid": 2}),
    "pairs_in_two_folders": (pairs_folders, "pairs", {"train": 4, "valid": 2}),
}
"""By name: what writes it, its reader, and the number of items of each split."""
