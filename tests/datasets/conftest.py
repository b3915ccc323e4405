"""What tests of worker processes share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def worker_data() -> Path:
    """The file of data sets that workers import by its path."""
    return Path(__file__).with_name("worker_data.py")
