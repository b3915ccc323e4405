"""Detects the layout of a folder from its listing: all detectors run, and exactly one must match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from trainer import TrainerError
from trainer.datasets.images import SUFFIXES, UNREAD
from trainer.datasets.layouts.classes import class_folders
from trainer.datasets.layouts.coco import coco, coco_file
from trainer.datasets.layouts.idx_and_text import idx, text_classes, texts
from trainer.datasets.layouts.layout import Layout, Part
from trainer.datasets.layouts.listing import Listing, join, suffix_of
from trainer.datasets.layouts.masks import mask_folders, masks_beside
from trainer.datasets.layouts.pairs import halves, side_by_side, two_folders
from trainer.datasets.layouts.tables import TABLES, labeled_images, table
from trainer.datasets.layouts.voc import label_img, voc
from trainer.datasets.layouts.yolo import yolo
from trainer.datasets.paths import missing_file
from trainer.datasets.split_words import TRAIN, split_within

DETECTORS: Sequence[tuple[str, Callable[[Listing], Layout | None]]] = (
    ("coco", coco),
    ("yolo", yolo),
    ("voc", voc),
    ("voc", label_img),
    ("image_folder", class_folders),
    ("table", labeled_images),
    ("segmentation", mask_folders),
    ("segmentation", masks_beside),
    ("pairs", two_folders),
    ("pairs", side_by_side),
    ("idx", idx),
    ("table", table),
    ("text", texts),
    ("text_classes", text_classes),
)
"""Detectors by reader. Each recognizes one family by file names and description files."""

_READ = {*SUFFIXES, *TABLES, ".json", ".xml", ".txt", ".yaml", ".yml", ".names", ".data", ".md"}
_IDX = "idx"


def detect_path(path: Path, form: str | None = None) -> tuple[Layout, Path]:
    """The layout of a folder or of a single file (COCO, table, text), and the root of its paths.

    Raises:
        TrainerError: as `detect` does, or the path doesn't exist.
    """
    path = path.absolute()
    if path.is_dir():
        return detect(path, form), path
    if not path.exists():
        raise missing_file(path)
    return _of_file(path, form)


def detect(root: Path, form: str | None = None) -> Layout:
    """Detects the layout of a folder.

    Args:
        root: the folder.
        form: only layouts of this reader (`coco`, `yolo`, …); None: of any reader.

    Raises:
        TrainerError: the folder is missing; it has no known layout, or several; its files contradict each other.
    """
    return detected(Listing.of(root), form)


def detected(listing: Listing, form: str | None = None) -> Layout:
    """Detects the layout of a listed folder, as `detect` does."""
    layouts = (detector(listing) for reader, detector in DETECTORS if form in (None, reader))
    candidates = [found for found in layouts if found is not None]
    if form == "pairs" and not candidates and (asked := halves(listing)) is not None:
        candidates = [asked]
    if len(candidates) > 1:
        raise TrainerError(
            "the folder matches several formats",
            where=str(listing.root),
            found="; ".join(f"{one.reader} ({one.line()}; by {one.reason})" for one in candidates),
            expected="one",
            hint=f"Choose one with `data.reader.format={candidates[0].reader}` for a run, or `--from "
            f"{candidates[0].reader}` for data inspect and data convert.",
        )
    if not candidates:
        raise _unknown(listing, form)
    return replace(candidates[0], unread={**candidates[0].unread, **_unread(listing)})


def _of_file(path: Path, form: str | None) -> tuple[Layout, Path]:
    split = split_within(path.stem) or TRAIN
    suffix, root = path.suffix.lower(), path.parent
    items: int | None = None
    settings: dict[str, str] = {}
    if suffix == ".json":
        settings, root, items = coco_file(path)
    elif suffix in TABLES:
        settings = {"name": "table", "file": path.name}
    elif suffix == ".txt":
        settings = {"name": "text", "file": path.name}
    if not settings or form not in (None, settings["name"]):
        raise TrainerError(
            "unknown data format" if form is None else f"a file that is not in the format {form}",
            where=str(path),
            found=path.name,
            expected="a COCO file, a table or a text",
        )
    return Layout(f"one file, {settings['name']}", {split: Part(settings, items)}, path.name), root


def _unknown(listing: Listing, form: str | None) -> TrainerError:
    entries = [f"{name}/" for name in listing.folders_in("")] + list(listing.folders.get("", ()))
    images = len(listing.images_below(""))
    return TrainerError(
        "unknown data format" if form is None else f"a folder that is not in the format {form}",
        where=str(listing.root),
        found=(", ".join(entries[:8]) or "an empty folder") + (f"; {images} images in total" if entries else ""),
        expected="COCO, YOLO or Pascal VOC annotations; a folder of images per class; images and a CSV of labels; "
        "images and masks; two folders of image pairs; IDX files, tables or texts (docs/data.md, Layouts)",
        hint="Set the format in `data.reader`: {name: pairs} for files with two images side by side."
        if images
        else "Set the format in `data.reader`.",
    )


def unread_images(listing: Listing) -> dict[str, tuple[int, str]]:
    """Images in unsupported formats: number and first path by file extension."""
    return {suffix: found for suffix, found in _unread(listing).items() if suffix in UNREAD}


def _unread(listing: Listing) -> dict[str, tuple[int, str]]:
    files = [join(at, name) for at, names in listing.folders.items() for name in names
             if suffix_of(name) not in _READ and _IDX not in name]  # fmt: skip
    counts = Counter(map(suffix_of, files))
    first = {suffix_of(file): file for file in reversed(files)}
    return {suffix or "no extension": (count, first[suffix]) for suffix, count in counts.most_common()}
