"""Small data sets in the layouts that people have, for tests of detection, reading and training.

Each writer fills a folder as the tool that it is named for exports it, with drawn images or with photos.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 32, 40
BOX = (8, 6, 16, 12)
"""x, y, width and height of the only object of each drawn image."""
COUNTS = {"train": 4, "val": 2}
Boxes = Sequence[tuple[str, Sequence[float]]]
"""Class and x, y, width, height in pixels of each object of an image."""


class Drawn:
    """What a folder holds of each item: noise with one bright rectangle, a thing."""

    suffix = ".png"
    class_names: Sequence[str] = ("thing",)
    labels: Sequence[str] = ("cat", "dog")
    colors: Mapping[str, Sequence[int]] = {"ground": (0, 0, 0), "thing": (255, 0, 0)}

    def photo(self, kind: str, stem: str) -> np.ndarray:
        """uint8 [H, W, 3]: the image of an item, for boxes, classes, masks or pairs."""
        return noise(_seed(stem))

    def target(self, stem: str) -> np.ndarray:
        """uint8 [H, W, 3]: the other image of a pair."""
        return noise(_seed(stem) + 1000)

    def boxes(self, stem: str) -> Boxes:
        return (("thing", BOX),)

    def indices(self, stem: str) -> np.ndarray:
        """uint8 [H, W]: the class of each pixel, 255 where it does not count."""
        return rectangle()

    def label(self, stem: str) -> str:
        return self.labels[int(stem[-1]) % 2]


class Photos(Drawn):
    """Of sample data sets: blood cells with their boxes, clothes by class, land cover, pairs of map and photo."""

    suffix = ".jpg"
    labels = ("hat", "dress")

    def __init__(self, folder: Path) -> None:
        """`folder` holds bccd, clothing, aerial and aerial_pairs."""
        self.folder = folder
        content = json.loads((folder / "bccd/annotations/instances_train.json").read_text())
        self._categories = {one["id"]: one["name"] for one in content["categories"]}
        self.class_names = tuple(self._categories.values())
        self._images = content["images"]
        self._annotations = content["annotations"]
        classes = json.loads((folder / "aerial/classes.json").read_text())
        self.colors = {one["name"]: one["rgb"] for one in classes["classes"]}

    def photo(self, kind: str, stem: str) -> np.ndarray:
        at = _place(stem)
        if kind == "boxes":
            return pixels(self.folder / "bccd/images" / self._images[at]["file_name"])
        if kind == "classes":
            return pixels(sorted((self.folder / "clothing/train" / self.label(stem)).iterdir())[at])
        if kind == "masks":
            return pixels(self._aerial("images", at))[:256, :320]
        return pixels(self._pair(at))[:, :256]

    def target(self, stem: str) -> np.ndarray:
        return pixels(self._pair(_place(stem)))[:, 256:]

    def boxes(self, stem: str) -> Boxes:
        image = self._images[_place(stem)]["id"]
        return [(self._categories[one["category_id"]], one["bbox"]) for one in self._annotations
                if one["image_id"] == image]  # fmt: skip

    def indices(self, stem: str) -> np.ndarray:
        return np.asarray(Image.open(self._aerial("masks", _place(stem))))[:256, :320]

    def _aerial(self, what: str, at: int) -> Path:
        return sorted((self.folder / "aerial" / what / "train").iterdir())[at]

    def _pair(self, at: int) -> Path:
        return sorted((self.folder / "aerial_pairs/train").iterdir())[at]


DRAWN = Drawn()


def _seed(stem: str) -> int:
    return 100 * list(COUNTS).index(stem.rstrip("0123456789")) + int(stem[-1])


def _place(stem: str) -> int:
    return int(stem[-1]) + (COUNTS["train"] if stem.startswith("val") else 0)


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def noise(seed: int, size: tuple[int, int] = (HEIGHT, WIDTH)) -> np.ndarray:
    """Noise with a bright rectangle at BOX."""
    drawn = np.random.default_rng(seed).integers(0, 100, (*size, 3), np.uint8)
    x, y, wide, high = BOX
    drawn[y : y + high, x : x + wide] += 120
    return drawn


def rectangle() -> np.ndarray:
    """1 at BOX, 0 around it."""
    values = np.zeros((HEIGHT, WIDTH), np.uint8)
    x, y, wide, high = BOX
    values[y : y + high, x : x + wide] = 1
    return values


def save(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)


def image(path: Path, seed: int, size: tuple[int, int] = (HEIGHT, WIDTH)) -> None:
    save(path, noise(seed, size))


def text(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def split_items(counts: Mapping[str, int] = COUNTS) -> list[tuple[str, str]]:
    """(word, stem) of each item; stems are unique over the splits."""
    return [(word, f"{word}{number}") for word, count in counts.items() for number in range(count)]


def stems_of(word: str) -> list[str]:
    return [stem for of, stem in split_items() if of == word]


def coco_file(names: Sequence[str], content: Drawn = DRAWN) -> dict[str, Any]:
    stems = [Path(name).stem for name in names]
    sizes = [content.photo("boxes", stem).shape if content is not DRAWN else (HEIGHT, WIDTH) for stem in stems]
    objects = [(number, *one) for number, stem in enumerate(stems) for one in content.boxes(stem)]
    return {
        "images": [{"id": n, "file_name": name, "height": size[0], "width": size[1]}
                   for n, (name, size) in enumerate(zip(names, sizes, strict=True))],
        "annotations": [
            {"id": n, "image_id": number, "category_id": 1 + content.class_names.index(name), "bbox": list(box),
             "area": box[2] * box[3], "iscrowd": 0} for n, (number, name, box) in enumerate(objects)
        ],
        "categories": [{"id": 1 + n, "name": name} for n, name in enumerate(content.class_names)],
    }  # fmt: skip


def xml(name: str, content: Drawn = DRAWN) -> str:
    stem = Path(name).stem
    height, width = content.photo("boxes", stem).shape[:2] if content is not DRAWN else (HEIGHT, WIDTH)
    things = "".join(
        f"<object><name>{label}</name><bndbox><xmin>{x}</xmin><ymin>{y}</ymin><xmax>{x + wide}</xmax>"
        f"<ymax>{y + high}</ymax></bndbox></object>"
        for label, (x, y, wide, high) in content.boxes(stem)
    )
    size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    return f"<annotation><filename>{name}</filename>{size}{things}</annotation>"


def yolo_line(stem: str = "", content: Drawn = DRAWN) -> str:
    height, width = content.photo("boxes", stem).shape[:2] if content is not DRAWN else (HEIGHT, WIDTH)
    return "".join(
        f"{content.class_names.index(label)} {(x + wide / 2) / width} {(y + high / 2) / height} {wide / width} "
        f"{high / height}\n"
        for label, (x, y, wide, high) in content.boxes(stem)
    )


def mask(path: Path, *, mode: str = "P", values: np.ndarray | None = None, content: Drawn = DRAWN) -> None:
    """Class indices with a palette, or as colors: 1 at BOX, 0 around it, unless `values` say otherwise."""
    values = rectangle() if values is None else values
    table = np.zeros((256, 3), np.uint8)
    table[: len(content.colors)] = list(content.colors.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == "P":
        picture = Image.fromarray(values)
        picture.putpalette(table.ravel().tolist())
    else:
        picture = Image.fromarray(table[values])
    picture.save(path)


def coco_standard(root: Path, content: Drawn = DRAWN) -> None:
    for word in COUNTS:
        names = [stem + content.suffix for stem in stems_of(word)]
        text(root / f"annotations/instances_{word}2017.json", coco_file(names, content))
        for stem in stems_of(word):
            save(root / f"{word}2017/{stem}{content.suffix}", content.photo("boxes", stem))


def coco_roboflow(root: Path, content: Drawn = DRAWN) -> None:
    for word, folder in (("train", "train"), ("val", "valid")):
        names = [stem + content.suffix for stem in stems_of(word)]
        text(root / folder / "_annotations.coco.json", coco_file(names, content))
        for stem in stems_of(word):
            save(root / folder / f"{stem}{content.suffix}", content.photo("boxes", stem))
    text(root / "README.roboflow.txt", "exported")


def yolo_ultralytics(root: Path, content: Drawn = DRAWN) -> None:
    names = "".join(f"  {number}: {name}\n" for number, name in enumerate(content.class_names))
    text(root / "data.yaml", f"path: ../datasets/mine\ntrain: images/train\nval: images/val\nnames:\n{names}")
    for word, stem in split_items():
        save(root / f"images/{word}/{stem}{content.suffix}", content.photo("boxes", stem))
        text(root / f"labels/{word}/{stem}.txt", yolo_line(stem, content))


def yolo_roboflow(root: Path, content: Drawn = DRAWN) -> None:
    folders = "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n"
    names = list(content.class_names)
    text(root / "data.yaml", f"{folders}\nnc: {len(names)}\nnames: {json.dumps(names)}\n")
    for word, stem in split_items():
        folder = "valid" if word == "val" else word
        save(root / f"{folder}/images/{stem}{content.suffix}", content.photo("boxes", stem))
        text(root / f"{folder}/labels/{stem}.txt", yolo_line(stem, content))


def yolo_darknet(root: Path, content: Drawn = DRAWN) -> None:
    text(root / "obj.names", "".join(f"{name}\n" for name in content.class_names))
    lists = "train = data/train.txt\nvalid = data/valid.txt\nnames = data/obj.names\n"
    text(root / "obj.data", f"classes = {len(content.class_names)}\n{lists}")
    for word, name in (("train", "train"), ("val", "valid")):
        text(root / f"{name}.txt", "".join(f"data/obj/{stem}{content.suffix}\n" for stem in stems_of(word)))
    for _, stem in split_items():
        save(root / f"obj/{stem}{content.suffix}", content.photo("boxes", stem))
        text(root / f"obj/{stem}.txt", yolo_line(stem, content))


def voc(root: Path, content: Drawn = DRAWN) -> None:
    for word in COUNTS:
        text(root / f"ImageSets/Main/{word}.txt", "".join(f"{stem}\n" for stem in stems_of(word)))
    text(root / "ImageSets/Main/trainval.txt", "".join(f"{stem}\n" for _, stem in split_items()))
    for _, stem in split_items():
        save(root / f"JPEGImages/{stem}{content.suffix}", content.photo("boxes", stem))
        text(root / f"Annotations/{stem}.xml", xml(f"{stem}{content.suffix}", content))


def label_img(root: Path, content: Drawn = DRAWN) -> None:
    for _, stem in split_items():
        save(root / f"{stem}{content.suffix}", content.photo("boxes", stem))
        text(root / f"{stem}.xml", xml(f"{stem}{content.suffix}", content))


def class_splits(root: Path, content: Drawn = DRAWN) -> None:
    for word, stem in split_items():
        save(root / word.capitalize() / content.label(stem) / f"{stem}{content.suffix}", content.photo("classes", stem))


def class_flat(root: Path, content: Drawn = DRAWN) -> None:
    for _, stem in split_items():
        save(root / content.label(stem) / f"{stem}{content.suffix}", content.photo("classes", stem))
    text(root / content.labels[0] / "Thumbs.db", "x")


def csv_labels(root: Path, content: Drawn = DRAWN) -> None:
    rows = []
    for _, stem in split_items():
        save(root / f"{stem}{content.suffix}", content.photo("classes", stem))
        rows.append(f"{stem}{content.suffix},{content.label(stem)}\n")
    text(root / "labels.csv", "filename,label\n" + "".join(rows))


def mask_folders(root: Path, content: Drawn = DRAWN) -> None:
    for word, stem in split_items():
        save(root / f"Images/{word}/{stem}{content.suffix}", content.photo("masks", stem))
        values = np.where(content.indices(stem) == 255, 0, content.indices(stem))
        mask(root / f"Masks/{word}/{stem}.png", mode="RGB", values=values, content=content)
    rows = "".join(f"{name},{','.join(map(str, color))}\n" for name, color in content.colors.items())
    text(root / "class_dict.csv", "name,r,g,b\n" + rows)


def mask_suffix(root: Path, content: Drawn = DRAWN) -> None:
    for _, stem in split_items():
        save(root / f"{stem}{content.suffix}", content.photo("masks", stem))
        mask(root / f"{stem}_mask.png", values=content.indices(stem), content=content)


def pairs_beside(root: Path, content: Drawn = DRAWN) -> None:
    for word, stem in split_items():
        both = np.concatenate([content.photo("pairs", stem), content.target(stem)], axis=1)
        save(root / f"pairs/{word}/{stem}{content.suffix}", both)


def pairs_folders(root: Path, content: Drawn = DRAWN) -> None:
    for word, stem in split_items():
        save(root / f"A/{word}/{stem}{content.suffix}", content.photo("pairs", stem))
        save(root / f"B/{word}/{stem}{content.suffix}", content.target(stem))


LAYOUTS: dict[str, tuple[Callable[..., None], str, dict[str, int]]] = {
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
