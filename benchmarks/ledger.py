"""Append-only files of JSON lines. Each line has an `id`, the digest of its text, and lists in `after` the ids of the
lines that were last when it was appended. Reading a file thus detects lines that were edited, or removed although a
later line names them. To merge two branches that both appended lines, keep the lines of both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import as_json

Line = dict[str, Any]


def append(file: Path, line: Mapping[str, Any]) -> Line:
    """Checks a file, appends a line to it and returns the line as written."""
    lines = read(file)
    referenced = {name for each in lines for name in each.get("after", ())}
    ends = [name for each in lines if (name := _id_of(each)) not in referenced]
    chained = json.loads(as_json({**line, "after": ends}))
    chained["id"] = _id_of(chained)
    file.parent.mkdir(exist_ok=True)
    with file.open("a", encoding="utf-8") as opened:
        opened.write(as_json(chained) + "\n")
    return chained


def read(file: Path) -> list[Line]:
    """Returns the lines of a file, oldest first; none if the file doesn't exist.

    Raises:
        ValueError: a line was edited, or a line that a later one names is missing.
    """
    texts = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    lines: list[Line] = [json.loads(text) for text in texts]
    known: set[str] = set()
    for number, line in enumerate(lines, 1):
        found = _id_of(line)
        if line.get("id", found) != found:
            raise ValueError(f"{file}:{number}: found a line that was edited, expected the text that was appended; "
                             "restore it, and append another line that supersedes it")  # fmt: skip
        if missing := [name for name in line.get("after", ()) if name not in known]:
            raise ValueError(f"{file}:{number}: found no line {missing[0]} before this one, expected it since this one "
                             "was appended after it; restore the line that was removed or edited")  # fmt: skip
        known.add(found)
    return lines


def _id_of(line: Line) -> str:
    text = as_json({name: value for name, value in line.items() if name != "id"})
    return hashlib.sha256(text.encode()).hexdigest()[:12]
