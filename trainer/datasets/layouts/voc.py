"""Pascal VOC: an XML file of boxes per image, in `Annotations` or next to it (labelImg)."""

from __future__ import annotations

from trainer import TrainerError
from trainer.datasets.layouts.layout import Layout, Part
from trainer.datasets.layouts.listing import Listing, join, stem_of, stems_in
from trainer.datasets.split_words import TRAIN, VALID, in_order, split_named

_SETS = "ImageSets/Main"


def voc(listing: Listing) -> Layout | None:
    """`Annotations` with `JPEGImages` and lists of each split."""
    annotations, images = listing.folder("annotations"), listing.folder("jpegimages", "images")
    if annotations is None or images is None or not listing.below(annotations, ".xml"):
        return None
    settings = {"name": "voc", "images": images, "annotations": annotations}
    sets = listing.folder(_SETS)
    lists = {} if sets is None else {stem_of(file).lower(): file for file in listing.files(sets, ".txt")}
    found = {split: file for name, file in lists.items() if (split := split_named(name))}
    if TRAIN not in found and "trainval" in lists:
        found[TRAIN] = lists["trainval"]
    if found:
        parts = {split: Part({**settings, "image_set": found[split]}, _lines(listing, found[split]))
                 for split in in_order(found)}  # fmt: skip
        return Layout("Pascal VOC", parts, ", ".join([annotations, images, *found.values()]))
    folders = {split: place for place in listing.folders_in(annotations) if (split := split_named(stem_of(place)))}
    if folders:
        parts = {split: Part({**settings, "annotations": place, "images": listing.folder(join(images, stem_of(place)))
                              or images}, len(listing.below(place, ".xml")))
                 for split, place in folders.items()}  # fmt: skip
        parts = {split: parts[split] for split in in_order(parts)}
        return Layout("Pascal VOC", parts, ", ".join([annotations, images]))
    return Layout("Pascal VOC", {TRAIN: Part(settings, len(listing.below(annotations, ".xml")))},
                  f"{annotations}, {images}")  # fmt: skip


def label_img(listing: Listing) -> Layout | None:
    """Images with an XML file of the same name next to them, in one folder or in one per split.

    Raises:
        TrainerError: both the folder itself and its split folders contain images with XML files.
    """
    named = {split: place for place in listing.folders_in("") if (split := split_named(place))}
    paired = {split for split, place in named.items() if _pairs(listing, place)}
    if paired and VALID in named and listing.images(named[VALID]):
        paired.add(VALID)  # missing annotations are an error, not a missing split
    divided = {split: named[split] for split in in_order(paired)}
    whole = next((at for at in ("", listing.folder("images")) if at is not None and _pairs(listing, at)), None)
    if whole is not None and divided:
        raise TrainerError(
            "annotated images both in the folder and in its split folders",
            where=str(listing.root),
            found=", ".join([whole or ".", *divided.values()]),
            expected="every image in one split",
        )
    if whole is not None:
        divided = {TRAIN: whole}
    if not divided:
        return None
    parts = {split: Part({"name": "voc", "images": at or ".", "annotations": at or "."}, len(listing.below(at, ".xml")))
             for split, at in divided.items()}  # fmt: skip
    return Layout("Pascal VOC (XML next to images)", parts, ", ".join(at or "." for at in divided.values()))


def _pairs(listing: Listing, at: str) -> set[str]:
    return stems_in(listing.images(at), at) & stems_in(listing.files(at, ".xml"), at)


def _lines(listing: Listing, file: str) -> int:
    return sum(bool(line.strip()) for line in listing.read(file).splitlines())
