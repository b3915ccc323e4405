"""The examples in docstrings of the engine's functions, and on the page of operations, run and give what they say."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.engine import functions, nn

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
PUBLIC: dict[str, Callable[..., Any]] = {
    **{name: getattr(functions, name) for name in functions.__all__},
    **{f"functional.{name}": getattr(nn.functional, name) for name in nn.functional.__all__},
}
EXAMPLES = {name: function.__doc__ for name, function in PUBLIC.items() if ">>>" in (function.__doc__ or "")}


def failures(name: str, text: str) -> list[str]:
    """What the examples of `text` print that it does not say."""
    report: list[str] = []
    names = {"engine": engine, "nn": nn, "np": np}
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert test.examples
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    return report


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_gives_what_it_says(name: str) -> None:
    assert not failures(name, EXAMPLES[name] or "")


def test_the_page_of_operations_says_what_its_examples_give() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    with engine.device("reference"):
        assert not failures(PAGE.name, "\n".join(blocks))
