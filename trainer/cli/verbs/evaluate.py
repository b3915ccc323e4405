"""`trainer evaluate`: computes the metrics of a run's model on a split, as validation does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.learner.inference.evaluation import EvaluationReport
    from trainer.rundir import Event

EXAMPLES = """\
  trainer evaluate cells                      validation split, best weights
  trainer evaluate cells --split test --json
  trainer evaluate cells --data my_data       data with the same classes
  trainer evaluate cells --report found       reports and images in found/
  trainer evaluate cells.model --data my_data
  trainer evaluate runs/cells/checkpoints/step-300
"""

WORST = 5
"""Number of worst items in the output."""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run, its name in runs/, a checkpoint or an exported file")
    parser.add_argument(
        "--split", default="valid", metavar="NAME", help="split: train, valid (default), test or another"
    )
    parser.add_argument("--data", metavar="FOLDER", help="folder of other data (default: the run's own)")
    parser.add_argument(
        "--weights", default="best", metavar="W", help="weights: best (default), latest, or a checkpoint's name"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--report", metavar="DIR", help="write reports and images of the worst items to this folder")
    parser.add_argument("--device", metavar="D", help="device instead of the run's own: cpu, cuda, cuda:N or reference")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.models import load_model, warnings_as_lines
    from trainer.cli.progress_line import ProgressLine

    with warnings_as_lines():
        model = load_model(arguments.run, arguments.weights, device=arguments.device)
    line = ProgressLine()
    report = model.evaluate(arguments.data, split=arguments.split, report=arguments.report, tell=_shown_on(line))
    line.clear()
    if arguments.json:
        import json

        print(json.dumps({"source": model.about.source, "weights": model.about.weights, **report.to_dict()}, indent=1))
    else:
        print(f"{model.about.source}, {model.about.weights}: {report.items} items of {report.split}")
        print("\n".join(_lines(report)))
        if arguments.report is not None:
            print(f"\nreports and pictures: {report.folder}")
    return 0


def _shown_on(line: Any) -> Callable[[Event], None]:
    import sys

    from trainer.rundir import BadItemEvent, PhaseEvent, WarningEvent

    show = line.of("batches")

    def tell(event: Event) -> None:
        if isinstance(event, PhaseEvent) and event.name == "evaluate" and event.done is not None:
            show(event.done, event.total or 0)
        elif isinstance(event, WarningEvent | BadItemEvent):
            line.clear()
            message = event.message if isinstance(event, WarningEvent) else f"{event.source}: {event.reason}"
            print(f"warning: {message}", file=sys.stderr)

    return tell


def _lines(report: EvaluationReport) -> Iterator[str]:
    width = max(map(len, report.metrics), default=0)
    yield from (f"  {name:{width}}  {value:.6g}" for name, value in sorted(report.metrics.items()))
    for name, content in report.reports.items():
        columns = _per_class(content)
        if columns:
            yield from ("", f"{name}, per class:", *_table(columns))
    if worst := report.worst(WORST):
        yield from ("", f"worst items, by {report.worst_score}:")
        yield from (f"  {item.score:<10.4g} {item.source}{f'  ({item.caption})' if item.caption else ''}"
                    for item in worst)  # fmt: skip


def _per_class(content: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns of a report with a row per class; empty for other reports."""
    names = list(content["class_names"])
    if content["kind"] == "per_class":
        return {"class": names, **content["columns"]}
    if content["kind"] == "coco":
        rows = content["classes"]
        return {"class" if key == "name" else key: [row[key] for row in rows] for key in (rows[0] if rows else ())}
    if content["kind"] == "confusion_matrix":
        counts = content["counts"]
        true, predicted = [sum(row) for row in counts], [sum(column) for column in zip(*counts, strict=True)]
        right = [counts[number][number] for number in range(len(counts))]
        return {
            "class": names or [str(number) for number in range(len(counts))],
            "precision": [one / all_ if all_ else None for one, all_ in zip(right, predicted, strict=True)],
            "recall": [one / all_ if all_ else None for one, all_ in zip(right, true, strict=True)],
            "support": true,
        }
    return {}


def _table(columns: Mapping[str, list[Any]]) -> list[str]:
    from trainer.cli.table import table

    rows = [[_cell(value) for value in row] for row in zip(*columns.values(), strict=True)]
    return [f"  {line}" for line in table(
        list(columns), rows, right=[head != "class" for head in columns], width=None
    ).splitlines()]  # fmt: skip


def _cell(value: Any) -> str:
    if value is None or value == -1:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
