"""Families of cases of which the quick tier runs a few: those that differ most."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def tiered(cases: Iterable[Any], quick: Container[Any]) -> list[Any]:
    """Parameters of a test, a tuple for several: cases in `quick` in the quick tier, the others in the full tier."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[] if case in quick else [pytest.mark.full])
        for case in cases
    ]
