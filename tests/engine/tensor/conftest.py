"""The tensor layer is tested on the reference device: what is under test here is the graph that it builds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trainer import engine


@pytest.fixture(autouse=True)
def reference_device() -> Iterator[None]:
    with engine.device("reference"):
        yield
