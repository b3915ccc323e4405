"""Image pairs: in two folders under the same names, or side by side in folders whose name contains "pairs"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainer.datasets.layouts.layout import Layout, Part
from trainer.datasets.layouts.listing import Listing, join, name_of, stems_in
from trainer.datasets.split_words import TRAIN, in_order, split_named

SIDES = (("a", "b"), ("input", "target"), ("inputs", "targets"), ("images", "targets"), ("source", "target"))
"""Names of the two folders, in lower case."""
_MARK = "pairs"


def two_folders(listing: Listing) -> Layout | None:
    """Two folders with images of the same names: A and B, input and target, images and targets."""
    found: dict[str, tuple[str, str]] = {}
    for first, second in SIDES:
        left, right = listing.folder(first), listing.folder(second)
        if left is not None and right is not None:
            for place in listing.folders_in(left):
                split, other = split_named(name_of(place)), listing.folder(join(right, name_of(place)))
                if split is not None and other is not None:
                    found[split] = place, other
            found = found or {TRAIN: (left, right)}
        for place in listing.folders_in(""):
            split = split_named(place)
            left, right = listing.folder(join(place, first)), listing.folder(join(place, second))
            if split is not None and left is not None and right is not None:
                found[split] = left, right
    if not any(share_names(listing, pair) for pair in found.values()):
        return None
    parts = {split: Part({"name": "pairs", "images": found[split][0], "targets": found[split][1]},
                         len(listing.images_below(found[split][0]))) for split in in_order(found)}  # fmt: skip
    return Layout("pairs in two folders", parts, ", ".join(f"{one}, {other}" for one, other in found.values()))


def side_by_side(listing: Listing) -> Layout | None:
    """Files with both images, if the folder or a subfolder has "pairs" in its name; image widths are not evidence."""
    marked = [place for place in listing.folders_in("") if _is_marked(place)]
    if len(marked) == 1:
        return halves(listing, marked[0])
    return halves(listing) if _is_marked(listing.root.name) else None


def halves(listing: Listing, base: str = "") -> Layout | None:
    """Every image of a folder, or of its split folders, as a file with both images."""
    named = {split: place for place in listing.folders_in(base) if (split := split_named(name_of(place)))}
    places = {split: named[split] for split in in_order(named) if listing.images(named[split])}
    if not places and listing.images(base):
        places = {TRAIN: base}
    parts = {
        split: Part({"name": "pairs", "images": at or "."}, len(listing.images_below(at)))
        for split, at in places.items()
    }
    return Layout("pairs side by side", parts, ", ".join(at or "." for at in places.values())) if parts else None


def _is_marked(name: str) -> bool:
    return _MARK in re.findall("[a-z]+", name.lower())


def share_names(listing: Listing, folders: Sequence[str]) -> bool:
    """Whether more than half of the images have the same names in all folders; the others lack a partner."""
    names = [stems_in(listing.images_below(folder), folder) for folder in folders]
    return 2 * len(set.intersection(*names)) > max(map(len, names))
