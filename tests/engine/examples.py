"""The examples of docs/functions.md and docs/layers.md: read, run, and with `python -m tests.engine.examples` written.

Lines between ```python and ``` are examples; what they print stands below each. All examples of a page share names.
"""

from __future__ import annotations

import ast
import doctest
import math
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("functions.md", "layers.md")
_BLOCK = re.compile(r"^```python\n(>>> .*?)^```$", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?")
_BEGINNING = """
import numpy as np
from trainer import engine
from trainer.engine import nn
from trainer.engine.nn import functional
"""


def examples(page: str) -> list[doctest.Example]:
    """The examples of a page, in order."""
    found = []
    for block in _BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        found += doctest.DocTestParser().get_examples(block[1])
    return found


def failures(page: str) -> list[str]:
    """What the examples of a page print that the page does not say, example by example."""
    names: dict[str, object] = {}
    exec(_BEGINNING, names)
    test = doctest.DocTest(examples(page), names, page, str(DOCS / page), 0, None)
    said: list[str] = []
    runner = doctest.DocTestRunner(_NearlyEqual(), verbose=False)
    runner.run(test, out=said.append, clear_globs=False)
    return said


class _NearlyEqual(doctest.OutputChecker):
    """The same text around the same numbers: devices may differ in a float's last digit."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        numbers = [[float(number) for number in _NUMBER.findall(text)] for text in (want, got)]
        texts = ["".join(_NUMBER.sub("#", text).split()) for text in (want, got)]
        is_near = len(numbers[0]) == len(numbers[1]) and all(
            math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6) for one, other in zip(*numbers, strict=True)
        )
        return is_near and texts[0] == texts[1]


def used_names(page: str) -> set[str]:
    """Attributes as examples write them: `engine.sort`, `nn.initializers.fans`."""
    found: set[str] = set()
    for example in examples(page):
        for node in ast.walk(ast.parse(example.source)):
            if isinstance(node, ast.Attribute):
                found.add(ast.unparse(node))
    return found


def write(page: str) -> None:
    """Put below each example what it prints now."""
    text = (DOCS / page).read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec(_BEGINNING, names)

    def filled(block: re.Match[str]) -> str:
        lines = []
        for example in doctest.DocTestParser().get_examples(block[1]):
            said: list[str] = []
            bare = doctest.Example(example.source, "")
            test = doctest.DocTest([bare], names, page, None, 0, None)
            _Recorder(said).run(test, out=lambda line: None, clear_globs=False)
            names.update(test.globs)
            first, *more = example.source.rstrip("\n").split("\n")
            lines += [f">>> {first}", *(f"... {each}" for each in more), *"".join(said).splitlines()]
        return "```python\n" + "\n".join(lines) + "\n```"

    (DOCS / page).write_text(_BLOCK.sub(filled, text), encoding="utf-8")


class _Recorder(doctest.DocTestRunner):
    def __init__(self, said: list[str]) -> None:
        super().__init__(verbose=False)
        self.said = said

    def report_failure(self, out: object, test: object, example: object, got: str) -> None:
        self.said.append(got)

    def report_unexpected_exception(self, out: object, test: object, example: doctest.Example, info: object) -> None:
        raise RuntimeError(f"this example raises: {example.source}") from info[1]  # type: ignore[index]


if __name__ == "__main__":
    from trainer import engine

    with engine.device("reference"):
        for each in PAGES:
            write(each)
