"""Photographs for decoding benchmarks, the same in every run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any


def photographs(count: int, width: int, height: int) -> Iterator[Any]:
    """Yields Pillow images like those of a camera: different crops of two photographs, at different scales."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    draws = random.Random(0)
    sources = [Image.fromarray(image) for image in load_sample_images().images]
    for _ in range(count):
        source = draws.choice(sources)
        high = draws.uniform(200, 427)
        wide = min(640.0, high * width / height)
        left, top = draws.uniform(0, 640 - wide), draws.uniform(0, 427 - high)
        box = (left, top, left + wide, top + high)
        yield source.resize((width, height), Image.Resampling.BICUBIC, box=box)
