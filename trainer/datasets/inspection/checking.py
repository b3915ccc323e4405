"""Checks all splits of a data set: every item, and properties across items: duplicates, ids, classes, EXIF."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from trainer.datasets.dataset import Dataset, Subset, Wrapped
from trainer.datasets.images import SUFFIXES, is_turned
from trainer.datasets.inspection.inspecting import Inspection, inspect
from trainer.datasets.readers.duplicates import same_content
from trainer.datasets.readers.opening import Progress
from trainer.datasets.readers.picture_reader import PictureReader

_DRAWN = ("boxes", "mask", "masks", "keypoints")
MOST_NAMED = 5
MOST_UNKNOWN = 0.01
"""Fraction of unknown tokens above which a warning is reported."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a data set, or a warning if it may be intended."""

    message: str
    found: str
    hint: str | None = None
    is_error: bool = True
    expected: str | None = None
    is_of_items: bool = False
    """Whether it concerns items that a run can skip."""


def inspect_splits(
    splits: Mapping[str, Dataset], progress: Callable[[str], Progress] | None = None
) -> tuple[dict[str, Inspection], list[Finding]]:
    """Checks every item of every split; `progress` creates the progress callback of a split.

    Returns the inspections by split, each with its counts of `files`, and the findings.
    """
    findings: list[Finding] = []
    inspections: dict[str, Inspection] = {}
    owners: dict[str, str] = {}
    for split, dataset in splits.items():
        found = inspections[split] = inspect(dataset, progress=None if progress is None else progress(split))
        for reason, count in found.reasons.items():
            source, error = next(one for one in found.bad if one[1].message == reason)
            message = f"{split}: {count} of {found.items} items can't be used: {reason}"
            first = f"the first in {error.where or source}" + ("" if error.found is None else f": {error.found}")
            expected = None if error.expected is None else str(error.expected)
            findings.append(Finding(message, first, error.hint, expected=expected, is_of_items=True))
        files = [path for path in image_files(dataset) if path is not None]
        owners.update(dict.fromkeys(files, split))
        turned = sum(map(is_turned, map(Path, files)))
        if files:
            found.found["files"] = {"images": len(files), "rotated by EXIF": turned}
        if turned and any(field in found.fields for field in _DRAWN):
            findings.append(Finding(
                f"{split}: {turned} images are rotated by EXIF", f"{len(files)} images with boxes, masks or keypoints",
                "Check on the contact sheet that annotations match the images as displayed.", is_error=False,
            ))  # fmt: skip
        findings += _classes(split, found)
        findings += _ids(split, found)
        findings += _unknown(split, found)
    findings += _copies(owners, inspections)
    findings += _shared_texts(inspections)
    return inspections, findings


def image_files(dataset: Dataset) -> list[str | None]:
    """The image file of each item; None for items without one."""
    if isinstance(dataset, Subset):
        whole = image_files(dataset.dataset)
        return [whole[index] for index in dataset.indices]
    if isinstance(dataset, Wrapped):
        return image_files(dataset.dataset) if len(dataset) == len(dataset.dataset) else [None] * len(dataset)
    if not isinstance(dataset, PictureReader):
        return [None] * len(dataset)
    paths = [dataset.image_path(index) for index in range(len(dataset))]
    return [path if Path(path).suffix.lower() in SUFFIXES else None for path in paths]


def _copies(owners: Mapping[str, str], inspections: Mapping[str, Inspection]) -> list[Finding]:
    """Reports files with identical contents: an error across splits, a warning within one."""
    pairs = same_content(owners, within=True)
    between: Counter[tuple[str, str]] = Counter()
    named: dict[tuple[str, str], list[str]] = {}
    for first, second in pairs:
        key = (owners[first], owners[second])
        between[key] += 1
        named.setdefault(key, []).append(f"{first} and {second}")
    for split, found in inspections.items():
        if "files" in found.found:
            found.found["files"]["duplicates"] = between[split, split]
    findings = []
    for (one, other), count in between.items():
        more = f"; and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
        shown = "; ".join(named[one, other][:MOST_NAMED]) + more
        if one == other:
            message, hint = (
                f"{one}: {count} images are duplicates within the split",
                "Remove them, unless their higher weight is intended.",
            )
        else:
            message, hint = (
                f"{count} images are both in {one} and in {other}",
                "Remove them from one of the two splits.",
            )
        findings.append(Finding(message, shown, hint, is_error=one != other))
    return findings


def _unknown(split: str, found: Inspection) -> list[Finding]:
    """Warns if many tokens are not in the vocabulary."""
    tokens = found.found.get("texts", {}).get("tokens", 0)
    if found.unknown_tokens <= MOST_UNKNOWN * tokens:
        return []
    share = found.unknown_tokens / tokens
    return [Finding(
        f"{split}: {share:.1%} of the tokens are unknown", f"{found.unknown_tokens} of {tokens}",
        "Raise data.reader.vocabulary_size, or use unit: byte_pairs, which has no unknown tokens.", is_error=False,
    )]  # fmt: skip


def _shared_texts(inspections: Mapping[str, Inspection]) -> list[Finding]:
    """Warns about labeled texts that are in two splits."""
    findings = []
    for one, other in combinations(inspections, 2):
        count = len(inspections[one].texts & inspections[other].texts)
        if count:
            findings.append(Finding(
                f"{count} texts are both in {one} and in {other}", f"{len(inspections[other].texts)} texts of {other}",
                "Remove them from one of the two splits, or take splits by data.reader.fractions.", is_error=False,
            ))  # fmt: skip
    return findings


def _classes(split: str, found: Inspection) -> list[Finding]:
    """Warns about classes without examples."""
    empty = [name for unit, counts in found.found.get("classes", {}).items() if unit != "pixels"
             for name, count in counts.items() if not count]  # fmt: skip
    if not empty:
        return []
    more = f", and {len(empty) - MOST_NAMED} more" if len(empty) > MOST_NAMED else ""
    return [Finding(f"{split}: {len(empty)} classes have no example", ", ".join(empty[:MOST_NAMED]) + more,
                    is_error=False)]  # fmt: skip


def _ids(split: str, found: Inspection) -> list[Finding]:
    ids, counts = np.unique(np.array(found.image_ids, np.int64), return_counts=True)
    twice = ids[counts > 1]
    if not len(twice):
        return []
    message = f"{split}: {len(twice)} ids are used by several images"
    hint = "Give each image a unique id: evaluation identifies images by it."
    return [Finding(message, ", ".join(map(str, twice[:MOST_NAMED])), hint)]
