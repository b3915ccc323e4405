"""Pictures of the manual: predictions of trained runs, drawn from their exported files.

    cd trainer/recipes
    draw="python ../../docs/prediction_pictures.py"
    $draw RUN detection/data/images/BloodImage_00007.jpg predicted-boxes.jpg
    $draw RUN segmentation/data/images/test/tile8_part9.jpg predicted-segmentation.jpg
    $draw RUN nuclei/data/images/test/nuc_0298.png predicted-instances.jpg

The run must predict the same as the file, to the last bit.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image

import trainer
from trainer import TrainerError

IMAGES = Path(__file__).parent / "images"
LONGEST = 640
"""Pixels of the longer side."""


def draw(run: str, file: str, name: str) -> None:
    """Draw what the model of a run predicts for a file as a picture of the documentation.

    Raises:
        TrainerError: the exported model predicts something else than the run.
    """
    model = trainer.load_model(run)
    with tempfile.TemporaryDirectory() as place:
        exported = trainer.load_model(model.export(Path(place, "exported.model")))
    result = exported.predict(file)
    if result.to_dict() != model.predict(file).to_dict():
        raise TrainerError("the exported model predicts something else", where=run)
    picture = Image.fromarray(result.drawn())
    picture.thumbnail((LONGEST, LONGEST))
    picture.save(IMAGES / name, quality=85)
    print(f"{IMAGES / name}: {result!r}, {(IMAGES / name).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    draw(*sys.argv[1:])
