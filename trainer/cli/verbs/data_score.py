"""`trainer data score`: evaluates a results file against an annotation file by COCO's rules."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.metrics.coco import Evaluation, Truths

EXAMPLES = (
    """\
  trainer data score instances_val2017.json results.json
  trainer data score instances_val2017.json """
    """masks.json --kind segm
  trainer data score person_keypoints_val2017.json people.json --kind keypoints
  """
    """trainer data score truth.json results.json --classes      one line per category
  trainer data score truth.json """
    """results.json --json > evaluation.json
"""
)

_COLUMN = 7


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("truth", metavar="ANNOTATIONS", help="a COCO annotation file")
    parser.add_argument("results", metavar="RESULTS", help="a COCO results file: a list of detections")
    parser.add_argument(
        "--kind", choices=("bbox", "segm", "keypoints"), default="bbox", help="what to compare: bbox, segm or keypoints"
    )
    parser.add_argument("--no-categories", action="store_true", help="treat all objects as one class")
    parser.add_argument("--classes", action="store_true", help="also print the metrics of each category")
    parser.add_argument("--json", action="store_true", help="print one JSON object, with precision-recall curves")
    parser.add_argument(
        "--evaluator",
        choices=("own", "pycocotools"),
        default="own",
        help="implementation: own (default), or pycocotools (the same values, slower)",
    )


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from trainer.cli.coco_files import CocoFiles
    from trainer.cli.progress_line import ProgressLine
    from trainer.metrics.coco import evaluate

    show = ProgressLine()
    files = CocoFiles(Path(arguments.truth), arguments.kind, show.of("annotations"))
    truths = files.truths(show.of("truths"))
    detections = files.detections(Path(arguments.results), show.of("results"))
    if arguments.evaluator == "pycocotools":
        show.note("pycocotools is evaluating")
    evaluation = evaluate(
        files.scene, truths, detections, kind=arguments.kind, use_categories=not arguments.no_categories,
        evaluator=arguments.evaluator, progress=show.of("detections"),
    )  # fmt: skip
    show.clear()
    for warning in _warnings(evaluation, truths, files.index.unattached):
        print(f"warning: {warning}", file=sys.stderr)
    if arguments.json:
        import json

        print(json.dumps(evaluation.as_json(), indent=1))
    else:
        print("\n".join(evaluation.lines() + (class_lines(evaluation) if arguments.classes else [])))
    return 0


def class_lines(evaluation: Evaluation) -> list[str]:
    """A table of all categories: number of ground truths, and metrics; "-" if undefined."""
    rows = evaluation.per_class()
    width = max(len("category"), *(len(str(row["name"])) for row in rows)) if rows else 0
    heads = [key for key in rows[0] if key != "name"] if rows else []
    lines = ["", f"{'category':{width}}" + "".join(f"{head:>{_COLUMN}}" for head in heads)]
    for row in rows:
        cells = [str(row["truths"]), *(_figure(row[head]) for head in heads[1:])]
        lines.append(f"{row['name']:{width}}" + "".join(f"{cell:>{_COLUMN}}" for cell in cells))
    return lines


def _figure(value: Any) -> str:
    return "-" if value == -1 else f"{value:.3f}"


def _warnings(evaluation: Evaluation, truths: Truths, unattached: Any) -> list[str]:
    warnings = []
    if evaluation.unknown:
        warnings.append(
            f"{evaluation.unknown} results have a category that is not in the annotations; they are ignored"
        )
    if unattached:
        warnings.append(f"{len(unattached)} annotations belong to no image of the file; they are ignored")
    if truths.annotation is not None and (truths.annotation == 0).any():
        warnings.append(
            "an annotation has the id 0: as in pycocotools, a result that matches it counts as a false positive"
        )
    return warnings
