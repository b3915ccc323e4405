"""Writes torch_losses.json next to it: losses of recipes' first steps computed by PyTorch in float64.

    python tests/recipes/make_torch_losses.py PYTHON_WITH_TORCH

The steps are recorded as `benchmarks/parity.py` does, with small networks where the recipe's are large, and replayed in
plain PyTorch (made with 2.13.0); the tests only read the file and take from here how steps are recorded.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "workloads"))

from recipe_parity import Losses, replayed
from recorded import record

STEPS = 5
OVERRIDES: Mapping[str, Sequence[str]] = {
    "digits": (),
    "detection": (
        "data.batch_size=2",
        "schedule.warmup_steps=100",
        "options.width=8",
        "options.blocks=[1, 1, 1, 1]",
        "options.pyramid_channels=16",
        "options.head_depth=1",
    ),
    "pix2pix": ("options.filters=3", "options.depth=5", "data.transforms={train: [], valid: []}"),
}


def recorded(recipe: str, folder: Path) -> Losses:
    """The losses of a recipe's first steps in float64, and in `folder`/steps what PyTorch needs to do the same."""
    overrides = list(OVERRIDES[recipe])
    if recipe == "pix2pix":
        overrides.append(f"data.root={pairs(folder / 'pairs')}")
        overrides.append('data.reader={name: pairs, images: "{split}", direction: right_to_left}')
    return record(recipe, folder / "steps", steps=STEPS, dtype="float64", overrides=overrides)


def pairs(folder: Path) -> Path:
    """Random pairs of pictures of 32x32, side by side."""
    random = np.random.default_rng(0)
    for split in ("train", "val"):
        (folder / split).mkdir(parents=True)
        for number in range(STEPS):
            Image.fromarray(random.integers(0, 256, (32, 64, 3), dtype=np.uint8)).save(folder / split / f"{number}.png")
    return folder


def main() -> None:
    losses = {}
    for recipe in OVERRIDES:
        with tempfile.TemporaryDirectory() as folder:
            recorded(recipe, Path(folder))
            losses[recipe] = replayed(sys.argv[1], recipe, Path(folder) / "steps", "--dtype", "float64")["losses"]
    Path(__file__).with_name("torch_losses.json").write_text(json.dumps(losses, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
