"""Small data sets that tests write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainer import TrainerError


@pytest.fixture
def picture(tmp_path: Path) -> Callable[..., np.ndarray]:
    """Writes an image of noise, and returns its pixels: picture("images/a.png", height, width)."""

    def write(name: str, height: int = 20, width: int = 30, seed: int = 0, **options: Any) -> np.ndarray:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
        Image.fromarray(pixels).save(path, **options)
        return pixels

    return write


@pytest.fixture
def text(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Writes a text, or plain data as JSON: text("annotations.json", {...})."""

    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def refusal() -> Callable[[Callable[[], object]], str]:
    """The text of the TrainerError that a call raises."""

    def of(call: Callable[[], object]) -> str:
        with pytest.raises(TrainerError) as caught:
            call()
        return str(caught.value)

    return of
