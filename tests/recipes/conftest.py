"""What tests of recipes share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trainer import engine


@pytest.fixture
def on_the_reference_device() -> Iterator[None]:
    """Everything is computed by NumPy, slowly and obviously; nothing is compiled."""
    with engine.device("reference"):
        yield
