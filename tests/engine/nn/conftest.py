"""What PyTorch computes, in float64: read from the file that make_torch_reference.py wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def torch_reference() -> dict[str, Any]:
    """torch_reference.json with its arrays as NumPy arrays."""
    return arrays(json.loads(Path(__file__).with_name("torch_reference.json").read_text()))


def arrays(entry: Any) -> Any:
    if isinstance(entry, dict):
        if set(entry) == {"shape", "values"}:
            return np.array(entry["values"], np.float64).reshape(entry["shape"])
        return {name: arrays(item) for name, item in entry.items()}
    return entry
