"""Every kind of damage in every reader: one sentence with the file, and `on_error: skip` counts it in every split."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.datasets.layout_folders import HEIGHT, LAYOUTS, WIDTH, coco_file, image, label_img, mask, save, text, xml
from trainer import TrainerError
from trainer.cli import main
from trainer.configs import config_from
from trainer.datasets import Dataset, loaders
from trainer.datasets.readers import Opening, read_splits

Damage = Callable[[Path, str], object]
"""Given a folder and the stem of an item (train1, val1)."""


def only(root: Path, name: str) -> Path:
    """The one file of this name, wherever the layout has it."""
    (found,) = root.rglob(name)
    return found


def photo_gone(root: Path, stem: str) -> None:
    only(root, f"{stem}.png").unlink()


def photo_cut(root: Path, stem: str) -> None:
    for path in root.rglob(f"{stem}.png"):
        path.write_bytes(path.read_bytes()[:80])
        return


def photo_empty(root: Path, stem: str) -> None:
    next(root.rglob(f"{stem}.png")).write_bytes(b"")


def in_coco(change: Callable[[dict[str, Any], int], object]) -> Damage:
    """Changes the COCO file of the item's split; `change` gets its content and the item's id."""

    def damage(root: Path, stem: str) -> None:
        for path in root.rglob("*.json"):
            content = json.loads(path.read_text())
            ids = {Path(one["file_name"]).stem: one["id"] for one in content["images"]}
            if stem in ids:
                change(content, ids[stem])
                path.write_text(json.dumps(content))

    return damage


def in_text(suffix: str, change: Callable[[str], str]) -> Damage:
    """Changes the item's annotation file."""
    return lambda root, stem: only(root, stem + suffix).write_text(change(only(root, stem + suffix).read_text()))


def in_table(change: Callable[[str], str]) -> Damage:
    """Changes the item's row."""

    def damage(root: Path, stem: str) -> None:
        lines = (root / "labels.csv").read_text().splitlines()
        text(root / "labels.csv", "\n".join(change(line) if stem in line else line for line in lines) + "\n")

    return damage


def mask_of(root: Path, stem: str) -> Path:
    return next(
        path
        for path in root.rglob("*.png")
        if "mask" in str(path.relative_to(root)).lower() and path.stem.startswith(stem)
    )


def mask_other(size: tuple[int, int], value: int, mode: str) -> Damage:
    """A mask of this size with one value everywhere."""

    def damage(root: Path, stem: str) -> None:
        mask(mask_of(root, stem), mode=mode, values=np.full(size, value, np.uint8))

    return damage


BOX_OUTSIDE = "<xmin>8</xmin>", "<xmin>8000</xmin>"
CASES: dict[str, tuple[str, Damage, str]] = {
    f"{layout}: {kind}": (layout, damage, says)
    for layouts, kinds in {
        ("coco", "coco_roboflow"): {
            "missing image": (photo_gone, "no such file"),
            "box outside": (in_coco(lambda content, at: content["annotations"][at].update(bbox=[8, 6, 900, 12])),
                            "a box exceeds the image"),
            "box without area": (in_coco(lambda content, at: content["annotations"][at].update(bbox=[8, 6, 0, 12])),
                                 "a box has no area"),
            "unknown class": (in_coco(lambda content, at: content["annotations"][at].update(category_id=9)),
                              "invalid annotations of an image"),
            "no box": (in_coco(lambda content, at: content["annotations"][at].pop("bbox")),
                       "invalid annotations of an image"),
            "another size": (in_coco(lambda content, at: content["images"][at].update(width=99, height=98)),
                             "the size of the image doesn't match its annotations"),
        },
        ("yolo_ultralytics", "yolo_roboflow", "yolo_darknet"): {
            "box outside": (in_text(".txt", lambda _: "0 .9 .5 .9 .1\n"), "a box exceeds the image"),
            "unknown class": (in_text(".txt", lambda _: "7 .5 .5 .1 .1\n"), "a class has no name"),
            "broken line": (in_text(".txt", lambda _: "0 .5 .5 .1\n"), "not a line of YOLO labels"),
            "no text": (lambda root, stem: only(root, f"{stem}.txt").write_bytes(b"0 \xff"), "is not UTF-8 text"),
        },
        ("yolo_darknet",): {"missing image": (photo_gone, "no such file")},
        ("voc", "label_img"): {
            "missing image": (photo_gone, "no such file"),
            "box outside": (in_text(".xml", lambda said: said.replace(*BOX_OUTSIDE)), "a box has no area"),
            "broken XML": (in_text(".xml", lambda said: said[:60] + "\n"), "the file is not XML, or truncated"),
            "another size": (in_text(".xml", lambda said: said.replace(f"<width>{WIDTH}", "<width>99")),
                             "the size of the image doesn't match its annotations"),
        },
        ("coco", "yolo_ultralytics", "yolo_darknet", "voc", "class_folders_with_splits", "csv_labels", "mask_folders",
         "mask_suffix", "pairs_side_by_side", "pairs_in_two_folders"): {
            "image cut short": (photo_cut, "truncated image"),
            "empty image": (photo_empty, "not an image, or damaged at its start"),
        },
        ("csv_labels",): {
            "missing image": (photo_gone, "no such file"),
            "no class": (in_table(lambda line: line.partition(",")[0] + ","), "a row has no class"),
            "short row": (in_table(lambda line: line.partition(",")[0]), "the number of fields"),
        },
        ("mask_folders", "mask_suffix"): {
            "missing mask": (lambda root, stem: mask_of(root, stem).unlink(), "an image without a mask"),
            "cut mask": (lambda root, stem: mask_of(root, stem).write_bytes(b"\x89PNG"), "not an image"),
        },
        ("mask_folders",): {
            "mask of another size": (mask_other((HEIGHT, WIDTH - 2), 0, "RGB"), "match its image"),
            "unknown color": (lambda root, stem: save(mask_of(root, stem), np.full((HEIGHT, WIDTH, 3), 9, np.uint8)),
                              "a mask contains a color without a class"),
        },
        ("mask_suffix",): {
            "mask of another size": (mask_other((HEIGHT, WIDTH - 2), 0, "P"), "match its image"),
        },
        ("pairs_in_two_folders",): {
            "missing target": (lambda root, stem: next((root / "B").rglob(f"{stem}.png")).unlink(), "without a target"),
        },
        ("pairs_side_by_side",): {
            "odd width": (lambda root, stem: image(only(root, f"{stem}.png"), 0, (HEIGHT, 2 * WIDTH + 1)),
                          "the width of a file with two images is odd"),
        },
    }.items()
    for layout in layouts
    for kind, (damage, says) in kinds.items()
}  # fmt: skip


def read(root: Path, on_error: str, heard: list[str]) -> dict[str, Dataset]:
    """The splits as a run reads them; a flat folder gives a third to validation."""
    counts = next(counts for write, _, counts in LAYOUTS.values() if write.__name__ == root.name)
    reader: dict[str, Any] = {"name": "auto"} | ({} if "valid" in counts else {"fractions": {"valid": 0.34}})
    if root.name.startswith("pairs"):
        reader["format"] = "pairs"
    data = {"root": str(root), "reader": reader, "batch_size": 1, "workers": 0, "on_error": on_error}
    config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}})

    def on_problem(error: TrainerError) -> None:
        heard.append(str(error))
        if on_error == "raise":
            raise error

    splits = read_splits(config.data.reader, config.data.root, opening=Opening(None, on_problem))
    for loader in loaders(splits, config).values():
        loader.on_bad_item = lambda bad: heard.append(f"{bad.source}: {bad.reason}")
        with loader.epoch(0) as batches:
            for batch in batches:
                assert all(np.isfinite(values).all() for values in batch.values())
    return splits


def written(tmp_path: Path, layout: str) -> Path:
    write = LAYOUTS[layout][0]
    write(tmp_path / write.__name__)
    return tmp_path / write.__name__


@pytest.mark.parametrize("stem", ["train1", "val1"])
@pytest.mark.parametrize("case", CASES)
def test_an_item_is_refused_in_one_sentence_and_skipped_in_every_split(
    tmp_path: Path, case: str, stem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, damage, says = CASES[case]
    root = written(tmp_path, layout)
    damage(root, stem)
    with pytest.raises(TrainerError) as caught:
        read(root, "raise", [])
    assert says in caught.value.message and "\n" not in caught.value.message
    assert stem in str(caught.value) or "labels.csv:" in str(caught.value)
    heard: list[str] = []
    read(root, "skip", heard)
    chosen = ["--from", "pairs"] if layout.startswith("pairs") else []
    assert main(["data", "inspect", str(root), "--json", *chosen]) == 2
    (listed,) = [bad for part in json.loads(capsys.readouterr().out).values() for bad in part["bad"]]
    assert says in listed["reason"]
    assert len(heard) == 1 and says in heard[0] and (stem in heard[0] or "labels.csv:" in heard[0])


RECORDS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "two images have one id": (
        "coco", lambda root: in_coco(
            lambda content, at: (content["images"][0].update(id=at), content["annotations"][0].update(image_id=at))
        )(root, "train1"),
        "image id 1 is used by another image, too",
    ),
    "two annotations have one id": (
        "coco", lambda root: in_coco(lambda content, at: content["annotations"][at - 1].update(id=at))(root, "train1"),
        "annotation id 1 is used by two annotations",
    ),
    "an annotation of no image": (
        "coco", lambda root: in_coco(lambda content, at: content["annotations"][at].update(image_id=99))(root, "val1"),
        "an annotation belongs to no image",
    ),
    "labels of no image": ("yolo_ultralytics", lambda root: text(root / "labels/val/val7.txt", ""), "val7.txt"),
    "a mask of no image": ("mask_folders", lambda root: mask(root / "Masks/val/val7.png", mode="RGB"), "val7.png"),
    "a target of no image": ("pairs_in_two_folders", lambda root: image(root / "B/val/val7.png", 7), "val7.png"),
    "a list names an image twice": (
        "yolo_darknet", lambda root: text(root / "valid.txt", "obj/val0.png\nobj/val1.png\nobj/val1.png\n"),
        "valid.txt: a list contains an image more than once",
    ),
    "a set names an image twice": (
        "voc", lambda root: text(root / "ImageSets/Main/val.txt", "val0\nval1\nval1\n"),
        "val.txt: a list contains an image more than once",
    ),
    "a class that train lacks": (
        "class_folders_with_splits", lambda root: image(root / "Val/emu/1.png", 7), "emu: the folder is not one of the",
    ),
    "a class without images": (
        "class_folders", lambda root: (root / "emu").mkdir(), "emu: no files of this kind in the folder",
    ),
    "an object of a class that train lacks": (
        "voc", lambda root: text(root / "Annotations/val1.xml", xml("val1.png").replace("thing", "other")),
        "unknown class of an object",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_is_refused_with_its_file_and_left_out(tmp_path: Path, kind: str) -> None:
    layout, damage, says = RECORDS[kind]
    root = written(tmp_path, layout)
    damage(root)
    with pytest.raises(TrainerError) as caught:
        read(root, "raise", [])
    assert says in str(caught.value) and str(root) in str(caught.value)
    heard: list[str] = []
    read(root, "skip", heard)
    assert heard and all(says in one for one in heard)


WHOLE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "broken JSON": (
        "coco", lambda root: text(root / "annotations/instances_val2017.json", '{"images": [\n}'),
        "instances_val2017.json:2: not a JSON file",
    ),
    "JSON cut short": (
        "coco_roboflow", lambda root: text(root / "valid/_annotations.coco.json", '{"images": [\n{'),
        "_annotations.coco.json:2: truncated JSON",
    ),
    "broken YAML": (
        "yolo_roboflow", lambda root: text(root / "data.yaml", "names: [a\nx: {"), "data.yaml:2: invalid YAML",
    ),
    "a tab in YAML": (
        "yolo_ultralytics", lambda root: text(root / "data.yaml", "names:\n\t0: thing\n"), "data.yaml:2: ",
    ),
    "broken CSV": (
        "csv_labels", lambda root: text(root / "labels.csv", 'filename,label\ntrain0.png,"cat"s\n'),
        "labels.csv:2: the file is not CSV",
    ),
    "two categories of one id": (
        "coco", lambda root: in_coco(lambda content, _: content["categories"].append({"id": 1, "name": "b"}))(
            root, "val1"), "instances_val2017.json: categories: two categories have the same id",
    ),
    "no images in a COCO split": (
        "coco", lambda root: in_coco(lambda content, _: content.update(images=[], annotations=[]))(root, "val1"),
        "instances_val2017.json: a split has no items",
    ),
    "an empty list": ("voc", lambda root: text(root / "ImageSets/Main/val.txt", ""), "val.txt: a split has no items"),
    "an empty list of Darknet": (
        "yolo_darknet", lambda root: text(root / "valid.txt", "\n"), "valid.txt: a list of images is empty",
    ),
    "a split of YOLO without images": (
        "yolo_ultralytics", lambda root: [path.unlink() for path in (root / "images/val").iterdir()],
        "images/val: a split has no items",
    ),
    "a split without masks": (
        "mask_folders", lambda root: [path.unlink() for path in (root / "Masks/val").iterdir()],
        "Masks/val: no files of this kind in the folder",
    ),
    "mixed formats": (
        "yolo_ultralytics",
        lambda root: text(root / "annotations/train.json", coco_file([f"train{number}.png" for number in range(4)])),
        "the folder matches several formats",
    ),
    "formats of boxes next to each other": ("yolo_darknet", lambda root: label_img(root), "matches several formats"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WHOLE)
def test_a_file_that_no_item_is_to_blame_for_is_an_error_either_way(tmp_path: Path, kind: str) -> None:
    layout, damage, says = WHOLE[kind]
    root = written(tmp_path, layout)
    damage(root)
    for on_error in ("raise", "skip"):
        with pytest.raises(TrainerError) as caught:
            read(root, on_error, [])
        assert says in str(caught.value) and str(root) in str(caught.value)
