"""The examples in docstrings of the engine's functions run, and give what they say."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.engine import functions, nn

PUBLIC: dict[str, Callable[..., Any]] = {
    **{name: getattr(functions, name) for name in functions.__all__},
    **{f"functional.{name}": getattr(nn.functional, name) for name in nn.functional.__all__},
}
EXAMPLES = {name: function for name, function in PUBLIC.items() if ">>>" in (function.__doc__ or "")}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_gives_what_it_says(name: str) -> None:
    found = doctest.DocTestFinder(recurse=False).find(
        EXAMPLES[name], name, globs={"engine": engine, "nn": nn, "np": np}
    )
    report: list[str] = []
    for example in found:
        doctest.DocTestRunner(verbose=False).run(example, out=report.append)
    assert not report, "".join(report)
    assert any(example.examples for example in found)
