"""COCO: one JSON file per split, in `annotations` or next to its images (Roboflow)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from trainer import TrainerError
from trainer.datasets.layouts.layout import Layout, Part
from trainer.datasets.layouts.listing import Listing, join, name_of, parent_of, stem_of
from trainer.datasets.layouts.masks import IMAGES
from trainer.datasets.readers.json_file import JsonFile
from trainer.datasets.split_words import TRAIN, in_order, split_named, split_within

_ROBOFLOW = "_annotations.coco.json"
_PREFERRED = "instances"
"""Prefix of the preferred file, because COCO's own splits have three: instances, captions and keypoints."""
_SAMPLE = 64
"""Number of images used to find their folder."""


class _Image(msgspec.Struct):
    file_name: str


class _Head(msgspec.Struct):
    images: list[_Image]
    annotations: msgspec.Raw
    categories: msgspec.Raw


def coco(listing: Listing) -> Layout | None:
    """COCO files in the folder itself, in `annotations`, or in the folders of the splits.

    Raises:
        TrainerError: a JSON file is damaged, its images are missing, or several files belong to one split.
    """
    places = ["", listing.folder("annotations"), *(one for one in listing.folders_in("") if split_named(one))]
    found: dict[str | None, list[tuple[str, list[str]]]] = {}
    for place in places:
        for file in [] if place is None else listing.files(place, ".json"):
            names = file_names(listing, file)
            if names is not None:
                split = split_within(stem_of(file)) or split_named(name_of(parent_of(file)))
                found.setdefault(split, []).append((file, names))
    if not found:
        return None
    parts: dict[str, Part] = {}
    for split, files in found.items():
        preferred = [one for one in files if stem_of(one[0]).startswith(_PREFERRED)]
        chosen = preferred if len(preferred) == 1 else files
        if len(chosen) > 1 or (split is None and len(found) > 1):
            raise TrainerError(
                "several COCO files whose names don't contain their split",
                where=str(listing.root),
                found=", ".join(file for files in found.values() for file, _ in files),
                expected="one file per split, with train, val or test in its name",
                hint="Select one with `data.reader={name: coco, images: FOLDER, annotations: FILE}`.",
            )
        file, names = chosen[0]
        settings = {"name": "coco", "images": images_folder(listing, file, names, split) or ".", "annotations": file}
        parts[split or TRAIN] = Part(settings, len(names))
    files_read = [str(part.settings["annotations"]) for part in parts.values()]
    is_roboflow = all(name_of(file).lower() == _ROBOFLOW for file in files_read)
    ordered = {split: parts[split] for split in in_order(parts)}
    return Layout("COCO (Roboflow)" if is_roboflow else "COCO", ordered, ", ".join(files_read))


def coco_file(path: Path) -> tuple[dict[str, str], Path, int]:
    """The reader settings for a single COCO file, the root of its paths, and its number of images.

    Raises:
        TrainerError: the file is not in COCO's format, or its images are neither in its folder nor, if that is named
            annotations or after a split, next to it.
    """
    source = JsonFile(path)
    names = [one.file_name for one in source.decode(_Head, "an object with images, annotations and categories").images]
    is_separate = path.parent.name.lower() == "annotations" or split_named(path.parent.name) is not None
    root = path.parent.parent if is_separate else path.parent
    file = path.relative_to(root).as_posix()
    images = images_folder(Listing.of(root), file, names, split_within(path.stem) or split_named(path.parent.name))
    return {"name": "coco", "images": images or ".", "annotations": file}, root, len(names)


def file_names(listing: Listing, file: str) -> list[str] | None:
    """The image names of a COCO file; None for other JSON.

    Raises:
        TrainerError: the file is not JSON, or truncated.
    """
    source = JsonFile(listing.root / file)
    try:
        head = source.decode(_Head, "an object with the lists images, annotations and categories")
    except TrainerError:
        source.decode(msgspec.Raw, "JSON")  # raises for invalid JSON; the rest is JSON of another form
        return None
    return [image.file_name for image in head.images]


def images_folder(listing: Listing, file: str, names: list[str], split: str | None) -> str:
    """The folder with most of the first images; ties go to the file's folder, then the split's, then one named images.

    Raises:
        TrainerError: none of the images exists, or two folders have equally many.
    """
    if not names:
        raise TrainerError("a split has no items", where=str(listing.root / file), found="an empty list of images")
    sample = names[:_SAMPLE]
    counts = Counter({at: sum(listing.has(join(at, name)) for name in sample) for at in listing.folders})
    most = max(counts.values(), default=0)
    if not most:
        raise TrainerError(
            "the annotated images are not in the folder",
            where=str(listing.root / file),
            found=f"no {sample[0]} in {listing.root} or its subfolders",
            hint="Set `data.root` to a folder that contains the images and the annotations.",
        )
    best = [at for at, count in counts.items() if count == most]
    for prefers in (
        lambda at: at == parent_of(file),
        lambda at: split is not None and any(split_named(part) == split for part in at.split("/")),
        lambda at: any(part.lower() in IMAGES for part in at.split("/")),
    ):
        best = [at for at in best if prefers(at)] or best
    if len(best) > 1:
        raise TrainerError(
            "several folders contain the annotated images",
            where=str(listing.root / file),
            found=", ".join(sorted(at or "." for at in best)),
            expected="one folder, or one named after the split",
        )
    return best[0]
