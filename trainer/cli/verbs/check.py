"""`trainer check`: checks a config and the files it names, without running task code."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainer.cli.rehearsal import HINT
from trainer.cli.verbs.data_inspect import draw, report

if TYPE_CHECKING:
    from trainer.cli.file_checks import Surroundings
    from trainer.configs import Loaded, Problem
    from trainer.datasets.inspection import Inspection

__all__ = ["EXAMPLES", "HINT", "describe", "execute"]

EXAMPLES = (
    """\
  trainer check config.yaml
  trainer check clothes data.root=photos       another data folder, with a """
    """detected layout
  trainer check config.yaml --data             read every item of every split: unreadable, """
    """invalid, duplicated
  trainer check config.yaml --data --contact-sheet sheet.png
  trainer check config.yaml """
    """--json
  trainer check config.yaml --resolved         every value, and its origin
"""
)

PICTURES = 24
"""Number of items on a contact sheet."""
_ROOT = ("data", "root")


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="CONFIG_OR_RECIPE", help="a YAML file or a recipe's name")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="values to set, as key=value")
    parser.add_argument("--data", action="store_true", help="read and check every item of every split")
    parser.add_argument(
        "--contact-sheet", metavar="FILE.png", help="with --data: draw items with their annotations into this file"
    )
    parser.add_argument("--json", action="store_true", help="print problems and data as one JSON object")
    parser.add_argument("--resolved", action="store_true", help="print the config with all values and their origin")


def execute(arguments: argparse.Namespace) -> int:
    from trainer import TrainerError
    from trainer.cli.exit_codes import DONE, USER_MISTAKE
    from trainer.cli.file_checks import Surroundings
    from trainer.configs import ConfigError, dump_resolved, load

    if arguments.contact_sheet and not arguments.data:
        raise TrainerError("--contact-sheet needs --data", hint="Add --data.")
    surroundings = Surroundings()
    found: dict[str, Inspection] = {}
    try:
        loaded = load(arguments.target, arguments.overrides, rules=[surroundings.problems])
        if arguments.data:
            found, problems = _read(loaded, surroundings, arguments.contact_sheet)
            if not arguments.json:
                print(
                    "\n\n".join("\n".join(report(name, inspection)) for name, inspection in found.items()), end="\n\n"
                )
            if problems:
                if not arguments.json:
                    _print_warnings(surroundings)
                raise ConfigError(problems)
    except ConfigError as error:
        if not arguments.json:
            raise
        _print_json(surroundings, found, error.problems)
        return USER_MISTAKE
    if arguments.resolved:
        print(dump_resolved(loaded), end="")
        return DONE
    if arguments.json:
        _print_json(surroundings, found, ())
        return DONE
    print(f"{arguments.target}: no problems")
    if surroundings.line is not None:
        print(f"  {surroundings.line}")
    _print_warnings(surroundings)
    for part in loaded.not_loaded:
        if not (found and part.startswith("its data")):
            print(f"  not checked: {part}")
    return DONE


def _read(loaded: Loaded, surroundings: Surroundings, sheet: str | None) -> tuple[dict[str, Inspection], list[Problem]]:
    """Reads every item of the config's data. Invalid items become problems, or warnings if the config skips them.

    Raises:
        TrainerError: only the task's code can read the data, or the contact sheet can't be drawn or written.
    """
    from trainer import TrainerError
    from trainer.cli.file_checks import as_problem
    from trainer.cli.progress_line import ProgressLine
    from trainer.datasets.inspection import inspect_splits
    from trainer.datasets.readers import Opening, read_splits

    data, line = loaded.config.data, ProgressLine()
    if data.reader is None or data.root is None or surroundings.splits is None:
        raise TrainerError(
            "the task creates its data itself, and this command runs no task code",
            where="data.reader",
            expected="data.root and data.reader",
            hint="`trainer data inspect` runs the task's code.",
        )
    strays: list[TrainerError] = []
    opening = Opening(line.of("reading"), strays.append, lambda text: None)  # duplicates are found below, one by one
    try:
        splits = read_splits(data.reader, data.root, seed=loaded.config.seed, opening=opening)
    except TrainerError as error:
        return {}, [as_problem(loaded, _ROOT, error)]
    inspections, findings = inspect_splits(splits, line.of)
    line.clear()
    if sheet is not None:
        draw(splits, inspections, sheet, PICTURES)
    surroundings.splits = {name: found.items for name, found in inspections.items()}
    is_skipped = data.on_error == "skip"
    problems = [] if is_skipped else [as_problem(loaded, _ROOT, error) for error in strays]
    surroundings.warnings += [str(error) for error in strays] if is_skipped else []
    for finding in findings:
        if finding.is_error and not (is_skipped and finding.is_of_items):
            problems.append(
                loaded.problem(
                    _ROOT, finding.message, found=finding.found, expected=finding.expected, hint=finding.hint
                )
            )
        else:
            surroundings.warnings.append(f"{finding.message}: {finding.found}")
    return inspections, problems


def _print_warnings(surroundings: Surroundings) -> None:
    for text in surroundings.warnings:
        print(f"  warning: {text}")


def _print_json(surroundings: Surroundings, found: Mapping[str, Inspection], problems: Sequence[Problem]) -> None:
    import json

    data = surroundings.to_json()
    if found:
        data["items"] = {name: inspection.to_json() for name, inspection in found.items()}
    printed: dict[str, Any] = {
        "ok": not problems,
        "problems": [problem.to_json() for problem in problems],
        "warnings": surroundings.warnings,
        "data": data,
    }
    print(json.dumps(printed, indent=1))
