"""Converts box annotations between formats, together with their images."""

from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trainer import TrainerError
from trainer.datasets.convert.annotated_image import READERS, Annotated
from trainer.datasets.convert.writers import WRITERS
from trainer.datasets.dataset import Dataset
from trainer.datasets.readers.opening import Progress

FORMATS = tuple(WRITERS)

Images = Literal["copy", "link", "none"]


@dataclass(slots=True)
class Conversion:
    """The result of a conversion: converted, skipped and lost data."""

    images: int = 0
    boxes: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(source, reason) of skipped images."""
    lost: Counter[str] = field(default_factory=Counter)
    """Annotations that the new format can't represent, by how they were handled."""


def convert(
    dataset: Dataset | Mapping[str, Dataset],
    to: str,
    folder: Path,
    *,
    images: Images = "copy",
    on_error: Literal["raise", "skip"] = "raise",
    progress: Progress | None = None,
) -> Conversion:
    """Writes the boxes of a COCO, VOC or YOLO data set to `folder` in the format `to`, together with its images.

    Boxes keep their position to a millionth of a pixel. Masks (and their areas) and keypoints are not converted, crowds
    only if the format has an equivalent. Losses are counted.

    Args:
        dataset: a data set in one of these formats, or several by the names of their splits: train, val, test.
        to: one of FORMATS.
        folder: a new or empty folder.
        images: "copy", "link" (hard links, on one file system), or "none".
        on_error: reaction to invalid annotations: "raise" or "skip".
        progress: receives the number of images done and the total.

    Raises:
        TrainerError: the data set has another format, the folder is not empty or can't be written, two images would
            share an annotation file, or annotations are invalid (with "raise").
    """
    parts = dataset if isinstance(dataset, Mapping) else {"": dataset}
    first = next(iter(parts.values()))
    read = READERS.get(type(first))
    if read is None or to not in WRITERS:
        raise TrainerError("unsupported conversion", found=f"{type(first).__name__} to {to}", expected=FORMATS)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TrainerError("the folder is not empty", where=str(folder), expected="a new or empty folder")
    done = Conversion()
    stems: dict[str, str] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writer = WRITERS[to](folder, first.class_names)
        for split, part in parts.items():
            writer.begin(split)
            for index in range(len(part)):
                try:
                    one = read(part, index)
                    _place_image(one, writer.images, images)
                except TrainerError as error:
                    if on_error == "raise":
                        raise
                    done.skipped.append((part.source(index), str(error)))
                    continue
                _refuse_shared_stem(one, writer.images, stems, part.source(index))
                done.images += 1
                done.boxes += writer.write(one)
                done.lost.update({f"{what} left out": count for what, count in one.lost.items()})
                if progress is not None:
                    progress(index + 1, len(part))
        writer.close()
    except OSError as error:
        raise TrainerError("the data set can't be written", where=str(folder), found=error) from error
    done.lost.update(writer.lost)
    done.lost = +done.lost  # without zero counts
    return done


def _place_image(one: Annotated, folder: Path, how: Images) -> None:
    if not one.image.is_file():
        raise TrainerError("no such file", where=str(one.image))
    if how == "none":
        return
    target = folder / one.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if how == "copy":
        shutil.copyfile(one.image, target)
    else:
        _link(one.image, target)


def _link(image: Path, target: Path) -> None:
    """Adds a hard link, because readers reject symbolic links that lead out of a data set."""
    try:
        os.link(os.path.realpath(image), target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise TrainerError(
            "can't link to an image on another file system", where=str(image), hint="Copy the images instead."
        ) from None


def _refuse_shared_stem(one: Annotated, folder: Path, stems: dict[str, str], where: str) -> None:
    """Rejects a name that differs from an earlier one only in its extension: they would share an annotation file."""
    stem = str((folder / one.name).with_suffix(""))
    if stem in stems:
        found = f"{stems[stem]} and {one.name}"
        raise TrainerError("two images have the same name except for the extension", where=where, found=found)
    stems[stem] = one.name
