"""YOLO: a text file of boxes per image, in `labels` or next to it (Darknet)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from trainer import TrainerError
from trainer.datasets.images import SUFFIXES
from trainer.datasets.layouts.layout import Layout, Part
from trainer.datasets.layouts.listing import Listing, join, name_of, parent_of, stem_of, stems_in
from trainer.datasets.readers.yolo import image_set_paths, read_yaml
from trainer.datasets.split_words import TRAIN, in_order, split_named, split_within

_KEYS = {"train": "train", "val": "valid", "valid": "valid", "test": "test"}
"""The keys of data.yaml for folders, and their splits."""


def yolo(listing: Listing) -> Layout | None:
    """Folders `images` and `labels`, with splits inside (Ultralytics) or inside each split (Roboflow), or Darknet's
    lists.

    Raises:
        TrainerError: data.yaml is not YAML, names a missing folder, or one folder for two splits; or class names are
            missing.
    """
    classes = _classes_file(listing)
    if classes is None:
        _refuse_unnamed(listing)
        return None
    lists = _lists(listing)
    if lists and not classes.endswith((".yaml", ".yml")):
        listed = {split: _part(listing, file, classes) for split, file in lists.items()}
        return Layout("YOLO (Darknet lists)", listed, ", ".join(lists.values()))
    named = _by_yaml(listing, classes) if classes.endswith((".yaml", ".yml")) else {}
    by_custom = {split: place for split, place in _by_custom(listing).items() if place not in named.values()}
    places = {**by_custom, **named}
    if not places:
        return None
    _refuse_shared(listing, classes, places)
    parts = {split: _part(listing, places[split], classes) for split in in_order(places)}
    is_roboflow = all(name_of(place).lower() == "images" and parent_of(place) for place in places.values())
    name = "YOLO (Roboflow)" if is_roboflow else "YOLO (Ultralytics)"
    if any(place.lower().endswith(".txt") for place in places.values()):
        name = "YOLO (lists)"
    return Layout(name, parts, ", ".join([classes, *(place or "." for place in places.values())]))


def _classes_file(listing: Listing) -> str | None:
    """The file of the class names: YAML with `names`, or Darknet's."""
    for file in listing.files("", ".yaml", ".yml"):
        if file.lower() == "data.yaml" or "names" in _entries(listing, file):
            return file
    texts = [file for file in listing.files("", ".txt") if file.lower() == "classes.txt"]
    return next(iter([*texts, *listing.below("", ".names")]), None)


def _entries(listing: Listing, file: str) -> Mapping[str, Any]:
    content = read_yaml(listing.root / file)
    return content if isinstance(content, dict) else {}


def _by_custom(listing: Listing) -> dict[str, str]:
    """The image folder of each split, from the names of folders."""
    found: dict[str, str] = {}
    images = listing.folder("images")
    for parent in (images, "") if images is not None else ("",):
        for place in listing.folders_in(parent):
            split = split_named(name_of(place))
            inner = place if parent else listing.folder(join(place, "images"))
            if split is None or inner is None or not listing.images_below(inner):
                continue
            if split in found:
                raise TrainerError(
                    "two folders for one split", where=str(listing.root), found=f"{found[split]} and {inner}"
                )
            found[split] = inner
    if not found and images is not None and listing.images_below(images) and _labels(listing, images):
        return {TRAIN: images}
    if not found and stems_in(listing.images(""), "") & stems_in(listing.files("", ".txt"), ""):
        return {TRAIN: ""}
    return {split: place for split, place in found.items() if _labels(listing, place) is not None}


def _by_yaml(listing: Listing, file: str) -> dict[str, str]:
    """The folder or list of each split that data.yaml names."""
    entries = _entries(listing, file)
    found: dict[str, str] = {}
    missing: dict[str, str] = {}
    for key, split in _KEYS.items():
        entry = entries.get(key)
        if entry is None:
            continue
        if not isinstance(entry, str):
            raise TrainerError(
                "a split has several folders", where=f"{listing.root / file}: {key}", found=entry, expected="one folder"
            )
        place = _resolved(listing, entry)
        if place is None:
            missing[key] = entry
        elif place.endswith(".txt") or listing.images_below(place):
            found[split] = place
        elif key != "test":
            raise TrainerError("a split has no items", where=str(listing.root / place), expected="images")
    there = {*found, *_by_custom(listing)}
    for key, entry in missing.items():
        if _KEYS[key] not in there and key != "test":  # exported data sets name a test folder that may be missing
            raise TrainerError(
                "data.yaml names a folder that doesn't exist",
                where=f"{listing.root / file}: {key}",
                found=entry,
                expected=f"a folder or list inside {listing.root}",
            )
    return found


def _resolved(listing: Listing, entry: str) -> str | None:
    """The folder or list of an entry: the longest existing suffix of its path."""
    parts = [part for part in PurePosixPath(entry.replace("\\", "/")).parts if part not in ("/", ".", "..")]
    for start in range(len(parts)):
        path = "/".join(parts[start:])
        if listing.has(path):
            return path
        if (folder := listing.folder(path)) is not None:
            return folder
    return "" if not parts or entry in (".", "./") else None


def _refuse_unnamed(listing: Listing) -> None:
    """Raises `TrainerError` for images with a label folder but without class names."""
    for place in _by_custom(listing).values():
        labels = _labels(listing, place)
        if labels and labels != place and stems_in(listing.below(labels, ".txt"), labels):
            raise TrainerError(
                "the classes of the YOLO labels have no names",
                where=str(listing.root / labels),
                expected="data.yaml with `names: [first, second]`, or classes.txt with one name per line",
                hint="Or set them in the config: `data.reader={name: yolo, images: FOLDER, classes: [first, second]}`.",
            )


def _refuse_shared(listing: Listing, classes: str, places: Mapping[str, str]) -> None:
    for split, place in places.items():
        for other, inner in places.items():
            if split != other and (inner == place or not place or inner.startswith(f"{place}/")):
                raise TrainerError(
                    "two splits have the same images",
                    where=str(listing.root / classes),
                    found=f"{split}: {place or '.'}, {other}: {inner or '.'}",
                    expected="a separate folder for each split",
                    hint="List it once, as `train:`, and take a split from it with "
                    "`data.reader.fractions={valid: 0.1}`.",
                )


def _lists(listing: Listing) -> dict[str, str]:
    """Files of image paths by split: those in Darknet's .data file, otherwise train.txt, valid.txt."""
    found: dict[str, str] = {}
    for file in listing.below("", ".data"):
        for line in listing.read(file).splitlines():
            key, _, value = (part.strip() for part in line.partition("="))
            place = _resolved(listing, value) if key in _KEYS else None
            if place is not None and listing.has(place):
                found[_KEYS[key]] = place
    for file in [] if found else [file for at in ("", *listing.folders_in("")) for file in listing.files(at, ".txt")]:
        split = split_within(stem_of(file))
        if split is not None and _is_list(listing, file):
            found[split] = file
    return {split: found[split] for split in in_order(found)}


def _is_list(listing: Listing, file: str) -> bool:
    lines = [line.strip() for line in listing.read(file).splitlines() if line.strip()]
    return bool(lines) and all(PurePosixPath(line).suffix.lower() in SUFFIXES for line in lines[:8])


def _part(listing: Listing, place: str, classes: str) -> Part:
    if place.lower().endswith(".txt") and listing.has(place):
        names = image_set_paths(listing.root, place)
        settings: dict[str, Any] = {"images": ".", "image_set": place, "labels": "."}
        items = len(names)
    else:
        settings = {"images": place or ".", "labels": _labels(listing, place) or "."}
        items = len(listing.images_below(place))
    return Part({"name": "yolo", **settings, "classes": classes}, items)


def _labels(listing: Listing, images: str) -> str | None:
    """The label folder of an image folder: `labels` instead of `images`, or the same folder."""
    parts = images.split("/")
    for place in (place for place in reversed(range(len(parts))) if parts[place].lower() == "images"):
        found = listing.folder("/".join([*parts[:place], "labels", *parts[place + 1 :]]))
        if found is not None:
            return found
    shared = stems_in(listing.images_below(images), images) & stems_in(listing.below(images, ".txt"), images)
    return images if shared else None
