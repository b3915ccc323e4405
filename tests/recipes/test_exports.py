"""Every recipe that predicts, exported: the same bits in a process in which no recipe can be imported."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.recipes.building import built
from trainer.learner.exported import Card, write_exported
from trainer.learner.exported.model import model_in
from trainer.learner.inference.model import About, Model

SMALL: dict[str, tuple[str, ...]] = {
    "digits": (),
    "clothes": ("options.width=8", "data.transforms.valid=[{name: resize, size: 32}]"),
    "detection": (
        "options.width=8", "options.pyramid_channels=16", "options.candidates=30", "options.detections=10",
        "options.least_score=0.0", "data.transforms.valid=[{name: resize, size: [64, 96]}]",
    ),
    "nuclei": ("options.widths=[8, 8]", "data.transforms.valid=[{name: pad, size: 64}]"),
    "segmentation": ("options.widths=[8, 8]", "options.tile=32", "options.margin=4"),
    "pix2pix": ("options.filters=4", "options.depth=4", "data.transforms.valid=[{name: resize, size: 32}]"),
}  # fmt: skip
"""What makes a recipe's networks and pictures small; weights are those before training."""

ELSEWHERE = """
import sys
sys.modules["trainer.recipes"] = None  # importing it fails
sys.path.append(sys.argv[1])
import json
import numpy as np
from pathlib import Path
from tests.recipes.test_exports import digests
import trainer
model = trainer.load_model(sys.argv[2])
files = sorted(Path(sys.argv[3]).iterdir())
print(json.dumps([digests(model.predict(files, batch_size=size)) for size in (1, 3, 8)]))
assert not [name for name in sys.modules if name.startswith("trainer.recipes.")]
"""


def digests(results: Iterable[Any]) -> list[str]:
    """What tells results apart, to the last bit."""
    return [
        hashlib.sha256(
            b"".join(
                value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
                for value in (getattr(result, field.name) for field in fields(result))
            )
        ).hexdigest()
        for result in results
    ]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of several sizes."""
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number, size in enumerate(((40, 60), (60, 33), (20, 20), (64, 64))):
        Image.fromarray(random.integers(0, 256, (*size, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return folder


@pytest.mark.parametrize("recipe", list(SMALL))
def test_an_exported_recipe_predicts_the_same_bits_without_its_code(
    recipe: str, photos: Path, tmp_path: Path, repository: Path
) -> None:
    task = built(recipe, *SMALL[recipe], "data.workers=0")
    pipeline = task.pipeline()
    write_exported(tmp_path / "m.model", pipeline, numerics={"class": "exact", "bfloat16": "pairs"}, card=Card(recipe))
    expected = digests(Model(pipeline, About(recipe, "", "")).predict(sorted(photos.iterdir()), batch_size=3))
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(repository), str(tmp_path / "m.model"), str(photos)],
        capture_output=True, text=True, cwd=repository, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [expected] * 3
    assert len(set(expected)) > 1


def test_a_model_of_a_file_says_what_it_is_and_is_copied_as_it_is(tmp_path: Path) -> None:
    task = built("digits", "data.workers=0")
    card = Card("digits", weights="step-9, the best", metrics={"valid/accuracy": 0.5})
    write_exported(tmp_path / "a", task.pipeline(), numerics={"class": "fast", "bfloat16": "pairs"}, card=card)
    model = model_in(tmp_path / "a")
    told = repr(model)
    assert "Model of digits: classification" in told and "step-9, the best" in told and "valid/accuracy: 0.5" in told
    model.export(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()
