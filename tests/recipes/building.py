"""Recipes' tasks for tests."""

from __future__ import annotations

from typing import Any

from trainer.configs import load
from trainer.learner import Plan
from trainer.learner.programs import set_mode

SMALL: dict[str, tuple[str, ...]] = {
    "digits": (),
    "clothes": ("options.width=8", "data.transforms.valid=[{name: resize, size: 32}]"),
    "detection": (
        "options.width=8", "options.pyramid_channels=16", "options.candidates=30", "options.detections=10",
        "options.score_threshold=0.0", "data.transforms.valid=[{name: letterbox, size: [64, 96]}]",
    ),
    "nuclei": ("options.widths=[8, 8]", "options.nms_radius=12"),
    "segmentation": ("options.widths=[8, 8]", "options.tile=128", "options.margin=16"),
    "pix2pix": ("options.filters=4", "options.depth=4", "data.transforms.valid=[{name: resize, size: 32}]"),
}  # fmt: skip
"""What makes the networks and pictures of the recipes that predict small."""


def built(recipe: str, *overrides: str) -> Any:
    """A recipe's task as a run has it when it is about to validate, its networks in inference mode."""
    loaded = load(recipe, overrides)
    task = getattr(loaded.task.import_module(), loaded.task.class_name)(loaded.config, loaded.options)
    task.splits = task.data()
    task.plan = Plan(1, 10)
    task.build()
    set_mode(task, is_training=False)
    return task
