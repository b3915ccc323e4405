"""Files of JSON lines that only grow. Each line has an `id`, the digest of its text, and names as `after` the lines
that were the last when it was appended, so that a line that was edited, or removed from before another, is found when
the file is read. Two branches that both appended merge by keeping the lines of both.
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
    """Add a line to a file, which is checked first; the line as it stands there."""
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
    """The lines of a file, oldest first; none where there is no file.

    Raises:
        ValueError: a line is not as it was appended, or one that a later line names is missing.
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
