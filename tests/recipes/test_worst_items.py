"""Every recipe with a score of single items: which one it has, and that it shows an item alone."""

from __future__ import annotations

import pytest

from tests.recipes.building import built
from trainer import engine
from trainer.metrics.item_scores import item_score

pytestmark = pytest.mark.usefixtures("on_the_reference_device")

UNET = ("options.widths=[2, 2]", "options.flips=false", "data.workers=0")
RECIPES = {
    "digits": ("log loss", ("data.workers=0",)),
    "clothes": ("log loss", ("options.blocks=[1]", "options.width=4", "data.workers=0")),
    "detection": ("1 - AP50", ("options.blocks=[1, 1, 1, 1]", "options.width=4", "options.pyramid_channels=8",
                               "options.head_depth=1", "options.score_threshold=0.0", "data.workers=0")),
    "nuclei": ("1 - mean IoU", UNET),
    "segmentation": ("1 - mean IoU", (*UNET, "options.tile=64", "options.margin=8")),
    "pix2pix": ("mean absolute error", ("options.filters=2", "options.depth=5", "data.workers=0")),
}  # fmt: skip


SLOW = ("nuclei",)  # it looks at all of its training pictures first


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=[pytest.mark.full] if name in SLOW else []) for name in RECIPES]
)
def test_an_item_alone_has_a_score_and_is_shown(recipe: str) -> None:
    name, overrides = RECIPES[recipe]
    task = built(recipe, *overrides)
    loader = task.data().valid
    batch = {name: engine.asarray(values) for name, values in loader.single(1).items()}
    assert {len(values) for values in batch.values()} == {1}
    found = item_score(task.valid_step(batch))
    assert found is not None and found[0].name == name
    if recipe == "nuclei":  # objects of a network that knows nothing are thousands; see test_nuclei.py for its samples
        return
    samples = list(task.samples(batch))
    assert samples and all(sample.image is not None for sample in samples)
