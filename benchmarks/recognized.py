"""FCN-score of pix2pix: how well a network trained on real photos segments the photos that pix2pix generates from maps.

    python benchmarks/recognized.py PIX2PIX_RUN SEGMENTATION_RUN

The metric is from Isola et al. 2017. A run of the recipe `segmentation` classifies each pixel of the test split's real
photos, and of the images that a run of the recipe `pix2pix` generates from their maps; the maps are the ground truth.
Both runs use averaged weights, `segmentation` those of its best checkpoint. The output is a table with a row for photos
and a row for generated images: pixel accuracy, and intersection over union (IoU) of each class and in the mean.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from harness import ROOT

from trainer import engine
from trainer.configs import load
from trainer.datasets.readers import Opening
from trainer.engine import nn
from trainer.learner.weights.files import read_weights
from trainer.recipes.parts.normalization import Normalize
from trainer.recipes.parts.pix2pix_generator import Pix2PixGenerator
from trainer.recipes.parts.unet import UNet
from trainer.recipes.pix2pix.map_tiles import CLASSES, read_map_tiles
from trainer.recipes.pix2pix.task import to_floats, to_pixels
from trainer.recipes.segmentation.options import DECLARATION

DATA = ROOT / "trainer" / "recipes" / "segmentation" / "data"


def restored(network: nn.Module, checkpoint: Path, name: str) -> nn.Module:
    """Loads the averaged weights that a checkpoint has under a name; returns the network in evaluation mode."""
    arrays = read_weights(checkpoint, "ema").arrays
    network.load_state_dict({key.removeprefix(f"{name}."): value.widened() for key, value in arrays.items()
                             if key.startswith(f"{name}.")})  # fmt: skip
    return network.eval()


def recognized(confusion: np.ndarray) -> list[float]:
    """Returns metrics of a confusion matrix [true class, predicted class] of pixels.

    They are the pixel accuracy, the intersection over union of each class, and the mean of these.
    """
    right = np.diag(confusion)
    overlaps = right / (confusion.sum(0) + confusion.sum(1) - right)
    return [right.sum() / confusion.sum(), *overlaps, overlaps.mean()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pix2pix", type=Path)
    parser.add_argument("segmentation", type=Path)
    arguments = parser.parse_args()
    made_with, segmentation = load("pix2pix").options, load("segmentation")
    read_with = segmentation.options
    normalized = Normalize.of(DECLARATION.normalization_of(segmentation.config.model, read_with))
    classes = json.loads((DATA / CLASSES).read_text(encoding="utf-8"))["classes"]
    generator = restored(
        Pix2PixGenerator(filters=made_with.filters, depth=made_with.depth), arguments.pix2pix, "generator"
    )
    reader = restored(
        UNet(3, len(classes), read_with.widths, read_with.reduction),
        arguments.segmentation / "checkpoints" / "best",
        "network",
    )
    tables = {name: np.zeros((len(classes), len(classes))) for name in ("photos", "generated images")}
    for pair in read_map_tiles(DATA, Opening())["test"]:
        truth = np.full(pair["image"].shape[:2], -1)
        for one in classes:
            truth[(pair["image"] == one["rgb"]).all(axis=2)] = one["index"]
        drawn, photo = (engine.asarray(pair[name].transpose(2, 0, 1)[None].copy()) for name in ("image", "target"))
        for name, picture in (("photos", photo), ("generated images", to_pixels(generator(to_floats(drawn))))):
            scores = nn.functional.interpolate(reader(normalized(picture)), size=picture.shape[2:], mode="bilinear")
            said = engine.argmax(scores, axis=1).numpy()[0]
            np.add.at(tables[name], (truth[truth >= 0], said[truth >= 0]), 1)
    heads = ["in percent", "pixel accuracy", *(f"IoU of {one['name']}" for one in classes), "mean IoU"]
    rows = [[name, *(f"{100 * value:.1f}" for value in recognized(table))] for name, table in tables.items()]
    for row in (heads, ["---"] * len(heads), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
