"""`trainer data inspect`: describes a data set, and lists the items that can't be used."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainer.cli.rehearsal import HINT

if TYPE_CHECKING:
    from trainer.datasets import Dataset
    from trainer.datasets.inspection import Inspection
    from trainer.datasets.readers import Opening

__all__ = ["EXAMPLES", "HINT", "describe", "execute"]

EXAMPLES = (
    """\
  trainer data inspect config.yaml                         every split of a config, as training reads it
  """
    """trainer data inspect bccd                                a folder, with a detected layout
  trainer data """
    """inspect instances_val2017.json --items 500  500 evenly spaced items
  trainer data inspect bccd --contact-sheet """
    """bccd.png       images with their annotations drawn
  trainer data inspect bccd --json > bccd.json
"""
)

MOST_BAD, MOST_CLASSES = 20, 30
_BAR = 24


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="+",
        metavar="CONFIG|FOLDER|FILE",
        help="a YAML file or recipe with key=value, a folder, or a file of a data set",
    )
    parser.add_argument("--from", dest="form", metavar="FORMAT", help="format of a folder (default: detected)")
    parser.add_argument("--split", help="inspect only this split")
    parser.add_argument(
        "--items", type=int, metavar="N", help="inspect N evenly spaced items of each split (default: all)"
    )
    parser.add_argument("--contact-sheet", metavar="FILE.png", help="draw images with their annotations into this file")
    parser.add_argument(
        "--pictures", type=int, default=24, metavar="N", help="number of images on the contact sheet (default 24)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, with all invalid items")


def execute(arguments: argparse.Namespace) -> int:
    import json

    from trainer import TrainerError
    from trainer.cli.exit_codes import DONE, USER_MISTAKE
    from trainer.cli.progress_line import ProgressLine
    from trainer.datasets.inspection import inspect
    from trainer.datasets.readers import Opening

    if min(1 if arguments.items is None else arguments.items, arguments.pictures) < 1:
        raise TrainerError("--items and --pictures must be positive", expected="at least 1")
    line = ProgressLine()
    strays: list[TrainerError] = []
    splits = _splits(arguments.words, Opening(line.of("reading"), strays.append), arguments.form)
    if arguments.split is not None:
        if arguments.split not in splits:
            raise TrainerError("no such split", found=arguments.split, expected=", ".join(splits))
        splits = {arguments.split: splits[arguments.split]}
    found = {name: inspect(dataset, most=arguments.items, progress=line.of(name)) for name, dataset in splits.items()}
    line.clear()
    first = next(iter(found.values()))
    first.bad[:0] = [(error.where or "", error) for error in strays]
    if arguments.contact_sheet:
        draw(splits, found, arguments.contact_sheet, arguments.pictures)
    if arguments.json:
        print(json.dumps({name: inspection.to_json() for name, inspection in found.items()}, indent=1))
    else:
        print("\n\n".join("\n".join(report(name, inspection)) for name, inspection in found.items()))
    return USER_MISTAKE if any(inspection.bad for inspection in found.values()) else DONE


def report(name: str, inspection: Inspection) -> list[str]:
    """An inspection as text."""
    sample = "" if inspection.inspected == inspection.items else f" ({inspection.inspected} inspected)"
    lines = [f"{name}: {inspection.items} items{sample}, {len(inspection.bad)} can't be used"]
    for field, form in inspection.fields.items():
        lines.append(f"  {field:12} {form}")
    for part, content in inspection.found.items():
        if part == "classes":
            for unit, counts in content.items():
                lines += ["", f"  {unit} per class", *_bars(counts)]
        else:
            lines += ["", f"  {part}", *(f"    {key:22} {_words(value)}" for key, value in content.items())]
    if inspection.bad:
        lines += ["", "  invalid items"]
        lines += [f"    {count:6}  {reason}" for reason, count in inspection.reasons.items()]
        for source, error in inspection.bad[:MOST_BAD]:
            lines += ["", *(f"    {text}" for text in _with_source(source, error))]
        if len(inspection.bad) > MOST_BAD:
            lines += ["", f"    and {len(inspection.bad) - MOST_BAD} more; --json lists all"]
    return lines


def _with_source(source: str, error: Exception) -> list[str]:
    text = str(error).splitlines()
    return text if source in text[0] else [f"{source}:", *(f"  {line}" for line in text)]


def _bars(counts: Mapping[str, int]) -> list[str]:
    """Classes with their counts and fractions, the most frequent first."""
    total, most = max(1, sum(counts.values())), max([1, *counts.values()])
    rows = sorted(counts.items(), key=lambda row: -row[1])
    width = max(len(name) for name, _ in rows[:MOST_CLASSES])
    lines = [
        f"    {name:{width}}  {count:9}  {count / total:6.1%}  {'█' * round(_BAR * count / most)}".rstrip()
        for name, count in rows[:MOST_CLASSES]
    ]
    if len(rows) > MOST_CLASSES:
        rest = sum(count for _, count in rows[MOST_CLASSES:])
        lines.append(f"    and {len(rows) - MOST_CLASSES} more classes with {rest} in total")
    return lines


def _words(value: Any) -> str:
    """A number, or several with their names."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(number)}" for name, number in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _splits(words: Sequence[str], opening: Opening, form: str | None) -> Mapping[str, Dataset]:
    """The data sets by split, of a config, a recipe, a folder or a file; `form` is the format of a folder or file."""
    import sys
    from pathlib import Path

    from trainer import TrainerError
    from trainer.datasets.readers import read_detected

    path = Path(words[0])
    if not path.is_dir() and not (path.is_file() and path.suffix not in (".yaml", ".yml")):
        if form is not None:
            raise TrainerError(
                "--from applies to a folder or a file only", hint="In a config, set `data.reader.format`."
            )
        return _of_config(words, opening)
    if len(words) > 1:
        raise TrainerError("key=value applies to a config, not to a folder", found=words[1])
    layout, splits = read_detected(path, opening, form)
    print(f"{words[0]}: {layout.line()}", file=sys.stderr)
    return splits


def _of_config(words: Sequence[str], opening: Opening) -> Mapping[str, Dataset]:
    import sys

    from trainer import configs
    from trainer.cli.prepare import split_words

    target, overrides = split_words(words, resuming=False)
    assert target is not None
    loaded = configs.load(target, overrides)
    data = loaded.config.data
    if data.reader is not None and data.root is not None:
        from trainer.datasets.layouts import detect
        from trainer.datasets.readers import read_splits

        if data.reader.name == "auto":
            print(f"{data.root}: {detect(data.root, data.reader.form).line()}", file=sys.stderr)
        return read_splits(data.reader, data.root, seed=loaded.config.seed, opening=opening)
    from trainer.cli.tasks import task_class

    task = task_class(loaded.task)(loaded.config, loaded.options)
    task.opening = opening
    splits = task.data()
    valid = {} if splits.valid is None else {"valid": splits.valid}
    loaders = {"train": splits.train, **valid, **splits.tests()}
    return {name: loader.dataset for name, loader in loaders.items()}


def draw(splits: Mapping[str, Dataset], found: Mapping[str, Inspection], file: str, most: int) -> None:
    """Draws evenly spaced items of the first split, at most a quarter of them invalid if enough are valid."""
    import sys
    from pathlib import Path

    from trainer import TrainerError
    from trainer.datasets.inspection import contact_sheet
    from trainer.rundir import write_error

    name, inspection = next(iter(found.items()))
    faulty = _spread(inspection.unusable, max(most - len(inspection.usable), -(-most // 4)))
    chosen = sorted([*faulty, *_spread(inspection.usable, most - len(faulty))])
    sheet = contact_sheet(splits[name], chosen)
    try:
        sheet.save(Path(file))
    except OSError as error:
        raise write_error(Path(file), error) from error
    except ValueError as error:
        raise TrainerError(
            "unknown image format", where=file, found=error, expected="a file name that ends in .png"
        ) from None
    of_them = f", {len(faulty)} of which can't be used" if faulty else ""
    print(f"{file}: {len(chosen)} items of {name}{of_them}", file=sys.stderr)


def _spread(items: Sequence[int], most: int) -> list[int]:
    """At most `most` evenly spaced items."""
    import numpy as np

    return [items[place] for place in np.linspace(0, len(items) - 1, min(most, len(items))).astype(int)]
