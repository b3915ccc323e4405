"""The command-line reference, written from the parsers of the verbs."""

from __future__ import annotations

import argparse

from trainer.cli import verb_parser
from trainer.cli.verbs import VERBS

COLUMNS = 100
HEAD = """\
# Command-line reference

Every command and its options; `trainer VERB --help` prints the same. `--debug` adds the traceback to any error.
[Exit codes](run.md#exit-codes) and [environment variables](run.md#environment-variables) are the same for all commands.

"""


def pages() -> dict[str, str]:
    """The page of all commands, by path."""
    return {"commands.md": HEAD + "\n".join(_verb(name) for name in VERBS)}


def _verb(name: str) -> str:
    verb, parser = verb_parser(name)
    parser.formatter_class = _Plain
    rows = [row for action in parser._actions if (row := _row(action)) is not None]
    examples = "\n".join(line.strip() for line in verb.EXAMPLES.splitlines())
    return (
        f"## trainer {name}\n\n{parser.description}\n\n```text\n{parser.format_usage().strip()}\n```\n\n"
        + "| argument | meaning |\n|---|---|\n" + "\n".join(rows) + f"\n\nExamples:\n\n```text\n{examples}\n```\n"
    )  # fmt: skip


class _Plain(argparse.RawDescriptionHelpFormatter):
    """The same width on every terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=COLUMNS)


def _row(action: argparse.Action) -> str | None:
    if action.help == argparse.SUPPRESS or action.dest in ("help", "debug"):
        return None
    values = action.metavar or (",".join(map(str, action.choices)) if action.choices else None)
    takes_value = action.nargs != 0
    shown = ", ".join(action.option_strings) or str(values or action.dest)
    if action.option_strings and takes_value:
        shown += f" {values or action.dest.upper()}"
    meaning = (action.help or "").replace("%%", "%").replace("<", "&lt;")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{shown}`", meaning)) + " |"
