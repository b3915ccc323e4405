"""Metrics are computed by the reference device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trainer import engine


@pytest.fixture(autouse=True)
def on_the_reference_device() -> Iterator[None]:
    with engine.device("reference"):
        yield
