"""Annotations of boxes from one format to another, with the images beside them."""

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
from trainer.datasets.convert.annotated import READERS, Annotated
from trainer.datasets.convert.writers import WRITERS
from trainer.datasets.dataset import Dataset
from trainer.datasets.readers.opening import Progress

FORMATS = tuple(WRITERS)

Images = Literal["copy", "link", "none"]


@dataclass(slots=True)
class Conversion:
    """What was converted, and what was not."""

    images: int = 0
    boxes: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(source, reason) of images that could not be used."""
    unsaid: Counter[str] = field(default_factory=Counter)
    """What the new format has no words for, by what became of it."""


def convert(
    dataset: Dataset | Mapping[str, Dataset],
    to: str,
    folder: Path,
    *,
    images: Images = "copy",
    on_error: Literal["raise", "skip"] = "raise",
    progress: Progress | None = None,
) -> Conversion:
    """Write the boxes of a COCO, VOC or YOLO data set to `folder` in the format `to`, its images beside them.

    Boxes keep their place to a millionth of a pixel. Masks (and their areas) and keypoints are not carried over, crowds
    only where the format has something near; what is lost is counted.

    Args:
        dataset: of one of these formats, or several of one format by the words of their splits: train, val, test.
        to: one of FORMATS.
        folder: new or empty.
        images: "copy" them, "link" to them (hard links, on one file system), or leave them out ("none").
        on_error: what an image does whose annotations can't be used.
        progress: hears of images done and in all.

    Raises:
        TrainerError: the data set is of another format, the folder has something in it or can't be written, two images
            would share a file of annotations, or an image can't be used (with "raise").
    """
    parts = dataset if isinstance(dataset, Mapping) else {"": dataset}
    first = next(iter(parts.values()))
    read = READERS.get(type(first))
    if read is None or to not in WRITERS:
        raise TrainerError("there is no such conversion", found=f"{type(first).__name__} to {to}", expected=FORMATS)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TrainerError("there is something already", where=str(folder), expected="a new or empty folder")
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
                done.unsaid.update({f"{what} left out": count for what, count in one.unsaid.items()})
                if progress is not None:
                    progress(index + 1, len(part))
        writer.close()
    except OSError as error:
        raise TrainerError("the data set can't be written", where=str(folder), found=error) from error
    done.unsaid.update(writer.unsaid)
    done.unsaid = +done.unsaid  # without what there was none of
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
    """A second name of the same file: symbolic links that lead out of a data set are not followed by readers."""
    try:
        os.link(os.path.realpath(image), target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise TrainerError(
            "an image can't be linked to from another file system", where=str(image), hint="Copy the images instead."
        ) from None


def _refuse_shared_stem(one: Annotated, folder: Path, stems: dict[str, str], where: str) -> None:
    """Formats with a file of annotations for each image need names that differ by more than their ending."""
    stem = str((folder / one.name).with_suffix(""))
    if stem in stems:
        found = f"{stems[stem]} and {one.name}"
        raise TrainerError("two images have one name but for the ending", where=where, found=found)
    stems[stem] = one.name
