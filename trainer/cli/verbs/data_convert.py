"""`trainer data convert`: converts box annotations between formats."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

EXAMPLES = """\
  trainer data convert --to voc bccd/annotations/instances_train.json bccd-voc
  trainer data convert --to yolo instances_val2017.json val2017-yolo --images-in val2017
  trainer data convert --from voc --to coco VOC2007 voc-coco --images link
  trainer data convert --from yolo --to coco sets/cells cells-coco --on-error skip
"""

HINT = "SRC is a COCO file, or the folder of a VOC or YOLO data set. "

_FORMATS = ("coco", "voc", "yolo")


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SRC", help="a COCO annotation file, or the folder of a VOC or YOLO data set")
    parser.add_argument("target", metavar="DST", help="new folder for the converted data set")
    parser.add_argument("--from", dest="source_format", choices=_FORMATS, help="format of SRC (default: detected)")
    parser.add_argument("--to", dest="target_format", choices=_FORMATS, required=True, help="format of DST")
    parser.add_argument(
        "--images-in", metavar="FOLDER", help="folder of the images (default: found next to the annotations)"
    )
    parser.add_argument(
        "--images",
        choices=("copy", "link", "none"),
        default="copy",
        help="how images get into DST: copy (default), link (hard links), or none",
    )
    parser.add_argument("--split", help="convert only this split, if SRC has several")
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="what happens at an unreadable image: raise (end with an error) or skip",
    )


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from trainer.cli.progress_line import ProgressLine
    from trainer.datasets.convert import convert
    from trainer.datasets.readers import Opening, read
    from trainer.rundir import write_error

    line = ProgressLine()
    strays: list[str] = []
    opening = Opening(line.of("annotations"))
    if arguments.on_error == "skip":
        opening = Opening(line.of("annotations"), lambda error: strays.append(str(error)))
    sections, root = _sections(arguments)
    parts = {split: read(section, root, opening=opening) for split, section in sections.items()}
    dataset = next(iter(parts.values()))
    target = Path(arguments.target)
    if not target.absolute().parent.is_dir():
        raise write_error(target, FileNotFoundError(2, "the parent folder doesn't exist"))
    is_undivided = list(parts) in ([""], ["train"])
    done = convert(
        dataset if is_undivided else parts, arguments.target_format, target, images=arguments.images,
        on_error=arguments.on_error,
        progress=line.of("images"),
    )  # fmt: skip
    line.clear()
    for text in strays:
        print(f"warning: {text}", file=sys.stderr)
    for source, reason in done.skipped:
        print(f"skipped: {source}: {reason}", file=sys.stderr)
    print(f"{target}: {done.images} images with {done.boxes} boxes of {len(dataset.class_names)} classes")
    if done.skipped:
        print(f"  {len(done.skipped)} images were skipped")
    for what, count in sorted(done.lost.items()):
        print(f"  {count} {what}")
    return 0


def _sections(arguments: argparse.Namespace) -> Any:
    """The reader sections of the converted splits, by name, and the root of their paths."""
    from pathlib import Path

    from trainer import TrainerError
    from trainer.datasets.layouts.detect import detect_path
    from trainer.datasets.readers.reading import section_of

    source = Path(arguments.source).absolute()
    if arguments.images_in is not None:
        images = Path(arguments.images_in).absolute()
        if source.suffix != ".json" or not source.is_file():
            raise TrainerError("--images-in applies to a COCO file only", where=arguments.source)
        root = Path(os.path.commonpath((source, images)))
        settings = {"images": str(images.relative_to(root)), "annotations": str(source.relative_to(root))}
        return {"": section_of({"name": "coco", **settings})}, root
    layout, root = detect_path(source, arguments.source_format)
    found = layout.splits
    if layout.reader not in _FORMATS:
        raise TrainerError(
            "SRC has another format",
            where=arguments.source,
            found=layout.line(),
            expected=" or ".join(_FORMATS),
        )
    if arguments.split is not None:
        if arguments.split not in found:
            raise TrainerError(
                "no such split", where=arguments.source, found=arguments.split, expected=", ".join(found)
            )
        found = {arguments.split: found[arguments.split]}
    words = {"valid": "val"}
    return {words.get(split, split): section_of(part.settings) for split, part in found.items()}, root
