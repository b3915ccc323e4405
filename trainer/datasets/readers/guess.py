"""Which reader fits a folder or a file that is given without a config: told by the names of what lies in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trainer import TrainerError
from trainer.configs import config_from
from trainer.configs.readers import Reading
from trainer.datasets.dataset import Dataset
from trainer.datasets.images import SUFFIXES
from trainer.datasets.paths import missing_file
from trainer.datasets.readers.coco import CocoDataset
from trainer.datasets.readers.files import folders_in
from trainer.datasets.readers.json_file import JsonFile
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.reading import read

Settings = Mapping[str, Any]

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
_SPLITS = ("train", "val", "valid", "validation", "test")


def guess(path: Path) -> dict[str, tuple[Reading, Path]]:
    """The reader's section and the root of each split (or of the whole, called "all") that `path` holds.

    Raises:
        TrainerError: there is no such file or folder, or it looks like none of the formats.
    """
    path = path.absolute()
    if not path.exists():
        raise missing_file(path)
    for look in _FILES if path.is_file() else _FOLDERS:
        found = look(path)
        if found:
            return {split: (section(settings), root) for split, (settings, root) in found.items()}
    names = sorted(entry.name for entry in path.iterdir())[:8] if path.is_dir() else [path.name]
    raise TrainerError(
        "which format this is can't be told",
        where=str(path),
        found=", ".join(names) or "an empty folder",
        expected="a COCO file, a folder with Annotations and JPEGImages, images and labels, images and masks, "
        "a folder of images a class, IDX files, a table, texts",
        hint="A config with `data.reader` says it.",
    )


def read_guessed(path: Path, opening: Opening = Opening()) -> dict[str, Dataset]:  # noqa: B008 - frozen
    """The data sets that `path` holds, by split, with all that their annotations have.

    Raises:
        TrainerError: as `guess` and the readers do.
    """
    found = {split: read(reader, root, opening=opening) for split, (reader, root) in guess(path).items()}
    for dataset in found.values():
        if isinstance(dataset, CocoDataset):
            dataset.masks, dataset.keypoints = dataset.index.has_masks, bool(dataset.index.keypoint_names)
    return found


def section(settings: Settings) -> Reading:
    """A reader's section from plain data. Raises ConfigError as a config does."""
    data = {"root": ".", "reader": dict(settings)}
    reader = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}}).data.reader
    assert reader is not None
    return reader


_Found = dict[str, tuple[Settings, Path]]


def _coco_file(path: Path) -> _Found:
    if path.suffix != ".json":
        return {}
    images = coco_images(path)
    root = path.parent if path.parent == images or path.parent in images.parents else path.parent.parent
    relative = images.relative_to(root) if images != root else Path(".")
    return {"all": ({"name": "coco", "images": str(relative), "annotations": str(path.relative_to(root))}, root)}


class _Name(msgspec.Struct):
    file_name: str


class _Head(msgspec.Struct):
    images: list[_Name]
    annotations: msgspec.Raw
    categories: msgspec.Raw


def coco_images(path: Path) -> Path:
    """The folder in which a COCO file's images lie, near it.

    Raises:
        TrainerError: the file is not COCO's, or the first image that it names is not near it.
    """
    first = JsonFile(path).decode(_Head, "an object with the lists images, annotations and categories").images[:1]
    words = [word for word in _SPLITS if word in path.stem] + [path.stem.rpartition("_")[2]]
    for base in (path.parent, path.parent.parent):
        for place in (
            base,
            base / "images",
            *(base / "images" / word for word in words),
            *(base / word for word in words),
        ):
            if any((place / image.file_name).is_file() for image in first):
                return place
    raise TrainerError(
        "where the images of the annotations lie can't be told",
        where=str(path),
        found=f"no {first[0].file_name} in {path.parent}, {path.parent.parent}, or images in it"
        if first
        else "no images",
    )


def _table_file(path: Path) -> _Found:
    return {"all": ({"name": "table", "file": path.name}, path.parent)} if path.suffix in _TABLES else {}


def _text_file(path: Path) -> _Found:
    return {"all": ({"name": "text", "file": path.name}, path.parent)} if path.suffix == ".txt" else {}


def _coco_folder(path: Path) -> _Found:
    found: _Found = {}
    for folder in (path, path / "annotations"):
        for file in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            try:
                found[file.stem] = _coco_file(file)["all"]
            except TrainerError:
                continue  # another kind of JSON
    return found


def _voc_folder(path: Path) -> _Found:
    if not any((path / "Annotations").glob("*.xml")):
        return {}
    settings = {"name": "voc", "images": "JPEGImages" if (path / "JPEGImages").is_dir() else "images"}
    return {"all": (settings, path)}


def _yolo_folder(path: Path) -> _Found:
    classes = next((name for name in ("data.yaml", "classes.txt") if (path / name).is_file()), None)
    if classes is None:
        return {}
    found: _Found = {}
    for images in ("images", *(f"images/{word}" for word in _SPLITS), *(f"{word}/images" for word in _SPLITS)):
        if any(entry.suffix.lower() in SUFFIXES for entry in _entries(path / images)):
            split = next((word for word in _SPLITS if word in images.split("/")), "all")
            found[split] = ({"name": "yolo", "images": images, "classes": classes}, path)
    return found


def _masks_folder(path: Path) -> _Found:
    if not ((path / "images").is_dir() and (path / "masks").is_dir()):
        return {}
    described = path / "classes.json"
    names = tuple(map(str, range(255)))
    if described.is_file():
        names = tuple(one["name"] for one in json.loads(described.read_text())["classes"])
    splits = [word for word in _SPLITS if (path / "images" / word).is_dir()]
    return {
        split: ({"name": "segmentation", "images": f"images{below}", "masks": f"masks{below}", "classes": names}, path)
        for split, below in ([(word, f"/{word}") for word in splits] or [("all", "")])
    }


def _class_folders(path: Path) -> _Found:
    splits = [word for word in _SPLITS if (path / word).is_dir()]
    places = {word: path / word for word in splits} or {"all": path}
    if all(_has_class_folders(place) for place in places.values()):
        return {
            split: ({"name": "image_folder", "images": str(place.relative_to(path))}, path)
            for split, place in places.items()
        }
    if splits and all(any(entry.suffix.lower() in SUFFIXES for entry in _entries(place)) for place in places.values()):
        return {split: ({"name": "pairs", "images": split}, path) for split in splits}
    return {}


def _has_class_folders(path: Path) -> bool:
    names = folders_in(path)
    return bool(names) and all(any(e.suffix.lower() in SUFFIXES for e in _entries(path / name)) for name in names)


def _idx_folder(path: Path) -> _Found:
    found: _Found = {}
    for images in sorted(path.glob("*images-idx3-ubyte*")):
        labels = images.name.replace("images-idx3", "labels-idx1")
        if (path / labels).is_file():
            split = {"train": "train", "t10k": "test"}.get(images.name.split("-")[0], images.name)
            found[split] = ({"name": "idx", "images": images.name, "labels": labels}, path)
    return found


def _texts_folder(path: Path) -> _Found:
    texts = [entry.name for entry in _entries(path) if entry.suffix == ".txt"]
    if not texts:
        return {}
    return {"all": ({"name": "text_classes"} if len(texts) > 1 else {"name": "text", "file": texts[0]}, path)}


def _table_folder(path: Path) -> _Found:
    tables = [entry for entry in _entries(path) if entry.suffix in _TABLES]
    return {table.stem: ({"name": "table", "file": table.name}, path) for table in tables}


def _entries(path: Path) -> Iterator[Path]:
    return iter(sorted(path.iterdir())) if path.is_dir() else iter(())


_Look = Callable[[Path], _Found]
_FILES: tuple[_Look, ...] = (_coco_file, _table_file, _text_file)
_FOLDERS: tuple[_Look, ...] = (
    _coco_folder, _voc_folder, _yolo_folder, _masks_folder, _class_folders, _idx_folder, _texts_folder, _table_folder,
)  # fmt: skip
