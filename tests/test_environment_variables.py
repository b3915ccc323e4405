"""The table of environment variables in docs/run.md has all of the package's own, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_table_has_every_variable_of_the_package() -> None:
    read = {
        node.value
        for file in (ROOT / "trainer").rglob("*.py")
        if "TRAINER_" in (source := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch("TRAINER_[A-Z_]+", node.value)
    }
    _, _, section = (ROOT / "docs" / "run.md").read_text(encoding="utf-8").partition("## Environment variables")
    listed = re.findall(r"^\| `(TRAINER_[A-Z_]+)`", section, re.MULTILINE)
    assert sorted(listed) == sorted(read)
