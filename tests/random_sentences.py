"""Draws sentences at random from config descriptions, messages and pages, to read them as a stranger would.

python -m tests.random_sentences                        fifty places of the checkout, as a Markdown table
python -m tests.random_sentences --before REVISION      the same places at an earlier revision next to them

A place is a config field, the n-th string of a function, or a sentence of a page; of an edited page, the most similar
sentence is shown. The draw depends only on the seed and on the earlier revision.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MESSAGE_ROOMS = ("cli", "configs", "datasets", "learner", "metrics", "rundir")
KINDS = ("description", "message", "page")
SHORTEST = 4
"""Words of a sentence that is worth reading."""

Place = tuple[str, str, str]
"""Kind, file, and the place in the file."""


def texts(read: Callable[[str], str], files: list[str]) -> dict[Place, str]:
    """Every text of a revision by its place."""
    found: dict[Place, str] = {}
    for file in files:
        if file.endswith(".md") and (file.count("/") == 0 or file.startswith("docs/") or "recipes/" in file):
            found |= {("page", file, str(number)): text for number, text in enumerate(sentences(read(file)))}
        elif file.endswith(".py") and (file.startswith("trainer/configs/") or file.endswith("/options.py")):
            found |= {("description", file, place): text for place, text in descriptions(read(file))}
        if file.endswith(".py") and file.split("/")[1:2] and file.split("/")[1] in MESSAGE_ROOMS:
            found |= {("message", file, place): text for place, text in messages(read(file))}
    return found


def sentences(text: str) -> list[str]:
    """The sentences of a page, without code, tables and headings."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n|\n(?=- )", prose) if block.strip()]
    return [
        one.strip() for block in blocks if not block.startswith(("#", "|", "!", "<"))
        for one in re.split(r"(?<=[.:])\s+(?=[A-Z`])", block)
    ]  # fmt: skip


def descriptions(source: str) -> Iterator[tuple[str, str]]:
    """(Class.field, description) of the fields of sections."""
    for section in ast.walk(ast.parse(source)):
        if not isinstance(section, ast.ClassDef):
            continue
        for field in section.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.value, ast.Call):
                for keyword in field.value.keywords:
                    if keyword.arg == "description" and isinstance(keyword.value, ast.Constant):
                        yield f"{section.name}.{ast.unparse(field.target)}", str(keyword.value.value)


def messages(source: str) -> Iterator[tuple[str, str]]:
    """(function and number, text) of what is passed to an error, a warning or a parser's help."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        number = 0
        for call in ast.walk(function):
            name = getattr(call.func, "id", getattr(call.func, "attr", "")) if isinstance(call, ast.Call) else ""
            if not isinstance(call, ast.Call) or not re.search(r"Error|Failure|Warning|add_argument|problem", name):
                continue
            for value in [*call.args, *(keyword.value for keyword in call.keywords)]:
                if isinstance(value, ast.JoinedStr) or (
                    isinstance(value, ast.Constant) and isinstance(value.value, str)
                ):
                    number += 1
                    yield f"{function.name} {number}", ast.unparse(value).strip("f").strip("'\"")


def text_at(place: Place, before: str, now: dict[Place, str]) -> str:
    """The text of a place today."""
    kind, file, _ = place
    if kind != "page":
        return now.get(place, "(renamed, moved or removed)")
    others = [text for (_, name, _), text in now.items() if name == file]
    return next(iter(difflib.get_close_matches(before, others, 1, 0.4)), "(rewritten or removed)")


def checkout(file: str) -> str:
    """A file as it is."""
    return (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else ""


def git(*words: str) -> str:
    """What git prints."""
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REVISION", help="also show the places at this revision, and draw from it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=50)
    arguments = parser.parse_args()
    now = texts(checkout, git("ls-files").splitlines())
    before = now
    if arguments.before:
        revision = arguments.before
        before = texts(
            lambda file: git("show", f"{revision}:{file}"), git("ls-tree", "-r", "--name-only", revision).splitlines()
        )
    draw = random.Random(arguments.seed)
    places = [
        place
        for number, kind in enumerate(KINDS)
        for place in draw.sample(
            sorted(place for place, text in before.items() if place[0] == kind and len(text.split()) >= SHORTEST),
            arguments.count // 3 + (number < arguments.count % 3),
        )
    ]
    print("| place | before | after |" if arguments.before else "| place | text |")
    print("|---|---|---|" if arguments.before else "|---|---|")
    for place in places:
        shown = [" ".join(place), *([before[place]] if arguments.before else []), text_at(place, before[place], now)]
        print(f"| {' | '.join(cell.replace('|', '∣').replace(chr(10), ' ') for cell in shown)} |")


if __name__ == "__main__":
    main()
