"""Semantic segmentation: masks in a separate folder, or next to the images as NAME_mask.png."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer import TrainerError
from trainer.datasets.images import opened
from trainer.datasets.layouts.layout import Layout, Part
from trainer.datasets.layouts.listing import Listing, join, name_of, stems_in
from trainer.datasets.split_words import TEST, TRAIN, VALID, in_order, split_named

IMAGES = ("images", "image", "imgs", "img", "jpegimages", "photos")
MASKS = ("masks", "mask", "segmentationclass", "segmentation", "labels", "annotations", "gt")
"""Names of the two folders, in lower case."""
SUFFIX = "_mask"


def mask_folders(listing: Listing) -> Layout | None:
    """Images and masks in parallel folders, which contain the splits or are in the folder of a split."""
    pairs: dict[str, tuple[str, str, str]] = {}
    folders = _parallel(listing)
    for split, images, masks in folders:
        for suffix in ("", SUFFIX):
            found = stems_in(listing.below(masks, ".png", ".bmp", ".tif", ".tiff", ".gif"), masks)
            if {stem + suffix for stem in stems_in(listing.images_below(images), images)} & found:
                pairs[split] = images, masks, suffix
                break
    if not pairs:
        return None
    suffix = next(iter(pairs.values()))[2]
    lacking = {split: (images, masks, suffix) for split, images, masks in folders if split != TEST}
    return _layout(listing, "images and masks", lacking | pairs)


def masks_beside(listing: Listing) -> Layout | None:
    """Masks next to the images, named NAME_mask."""
    named = {split: place for place in listing.folders_in("") if (split := split_named(place))}
    places = {**({TRAIN: ""} if not named else {}), **named}
    if (images := listing.folder(*IMAGES)) is not None:
        places |= {split: place for place in listing.folders_in(images) if (split := split_named(name_of(place)))}
        places = places if len(places) > 1 or TRAIN not in places or places[TRAIN] else {TRAIN: images, **places}
    pairs = {}
    for split, place in places.items():
        stems = stems_in(listing.images(place), place)
        if any(stem + SUFFIX in stems for stem in stems):
            pairs[split] = place, place, SUFFIX
    if not pairs:
        stems = stems_in(listing.images(""), "")
        pairs = {TRAIN: ("", "", SUFFIX)} if any(stem + SUFFIX in stems for stem in stems) else {}
    if not pairs:
        return None
    lacking = {split: (place, place, SUFFIX) for split, place in places.items() if split == VALID}
    return _layout(listing, "images with NAME_mask next to them", lacking | pairs)


def _parallel(listing: Listing) -> list[tuple[str, str, str]]:
    """(split, folder of images, folder of masks) of all matching folders."""
    images, masks = listing.folder(*IMAGES), listing.folder(*MASKS)
    found = []
    if images is not None and masks is not None:
        for place in listing.folders_in(images):
            split, inner = split_named(name_of(place)), listing.folder(join(masks, name_of(place)))
            if split is not None and inner is not None:
                found.append((split, place, inner))
        found = found or [(TRAIN, images, masks)]
    for place in listing.folders_in(""):
        split = split_named(place)
        own = listing.folder(*(join(place, name) for name in IMAGES))
        other = listing.folder(*(join(place, name) for name in MASKS))
        if split is not None and own is not None and other is not None:
            found.append((split, own, other))
    return found


def _layout(listing: Listing, name: str, pairs: Mapping[str, tuple[str, str, str]]) -> Layout:
    classes = class_table(listing)
    colored = next((masks for _, masks, suffix in pairs.values() if _are_colored(listing, masks, suffix)), None)
    if colored is not None and "colors" not in classes:
        raise TrainerError(
            "masks in color without a table of class colors",
            where=str(listing.root / colored),
            found="RGB pixels",
            expected="classes.json, class_dict.csv (name, r, g, b) or labelmap.txt (name:r,g,b) in the folder",
            hint="Or set the colors in the config: "
            "`data.reader={name: segmentation, classes: […], colors: [[r, g, b], …]}`.",
        )
    if colored is None:
        classes = {key: value for key, value in classes.items() if key == "classes"}
    parts = {}
    for split in in_order(pairs):
        images, masks, suffix = pairs[split]
        items = [file for file in listing.images_below(images)]
        if images == masks:
            items = [file for file in items if not next(iter(stems_in([file], images))).endswith(suffix)]
        settings: dict[str, Any] = {"name": "segmentation", "images": images or ".", "masks": masks or "."}
        parts[split] = Part({**settings, "mask_suffix": suffix, **classes}, len(items))
    return Layout(name, parts, ", ".join(f"{images or '.'}, {masks or '.'}" for images, masks, _ in pairs.values()))


def _are_colored(listing: Listing, masks: str, suffix: str) -> bool:
    files = [file for file in listing.images_below(masks) if next(iter(stems_in([file], masks))).endswith(suffix)]
    modes = (_mode(listing.root / file) for file in files)
    return next((mode for mode in modes if mode is not None), None) in ("RGB", "RGBA")


def _mode(path: Path) -> str | None:
    """The mode of an image; None for an unreadable image, which is reported as an unusable item later."""
    try:
        return opened(path).mode
    except TrainerError:
        return None


def class_table(listing: Listing) -> dict[str, Any]:
    """`classes`, and `colors` and `ignore_colors` if defined, from the file that describes the classes.

    Supported files are classes.json ({"classes": [{"name", "rgb"}], "ignore_rgb"}), class_dict.csv (name, r, g, b),
    labelmap.txt (name:r,g,b) and classes.txt (one name per line). Empty without such a file.

    Raises:
        TrainerError: the file has an invalid form.
    """
    for names, parse in _TABLES.items():
        file = next((file for file in listing.files("", ".json", ".csv", ".txt") if file.lower() == names), None)
        if file is not None:
            try:
                return dict(parse(listing.read(file)))
            except (ValueError, KeyError, TypeError) as error:
                raise TrainerError(
                    "the table of classes has an invalid form",
                    where=str(listing.root / file),
                    found=f"{type(error).__name__}: {error}",
                    expected=parse.__doc__,
                ) from None
    return {}


def _of_json(text: str) -> dict[str, Any]:
    """{"classes": [{"name": "road", "rgb": [128, 64, 128]}]}"""
    content = json.loads(text)
    rows = [(one["name"], one.get("rgb")) for one in content["classes"]]
    ignored = [content["ignore_rgb"]] if "ignore_rgb" in content else []
    return _table([(name, color) for name, color in rows], ignored)


def _of_csv(text: str) -> dict[str, Any]:
    """a line `name,r,g,b`, then one line per class"""
    head, *rows = ([cell.strip() for cell in row] for row in csv.reader(io.StringIO(text)) if row)
    if [cell.lower() for cell in head] != ["name", "r", "g", "b"]:
        raise ValueError(", ".join(head))
    return _table([(row[0], [int(cell) for cell in row[1:4]]) for row in rows], [])


def _of_labelmap(text: str) -> dict[str, Any]:
    """one line `name:r,g,b` per class"""
    lines = [line.split(":") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return _table([(line[0], [int(cell) for cell in line[1].split(",")]) for line in lines], [])


def _of_lines(text: str) -> dict[str, Any]:
    """one name per line"""
    return _table([(line.strip(), None) for line in text.splitlines() if line.strip()], [])


def _table(rows: list[tuple[str, list[int] | None]], ignored: list[list[int]]) -> dict[str, Any]:
    found: dict[str, Any] = {"classes": [name for name, _ in rows]}
    if all(color is not None for _, color in rows):
        found |= {"colors": [color for _, color in rows], "ignore_colors": ignored}
    return found


_TABLES = {
    "classes.json": _of_json, "class_dict.csv": _of_csv, "labelmap.txt": _of_labelmap, "classes.txt": _of_lines,
}  # fmt: skip
