"""Backbones have torchvision's parameter names and shapes; `benchmarks/backbones.py` compares outputs and gradients."""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase

import numpy as np
import pytest

from trainer import engine
from trainer.cli.tasks import task_class
from trainer.configs import load
from trainer.learner import Plan
from trainer.learner.programs import set_mode
from trainer.recipes.parts.backbones import backbone
from trainer.recipes.parts.normalization import Normalize

pytestmark = pytest.mark.usefixtures("on_the_reference_device")

NAMES = {  # SHA-256 of the lines "name shape", sorted, of torchvision's state dictionaries for 1,000 classes
    "resnet18": "5191d63ec398959223d67ef37376f9061e6965b859fc2d4e40e23d037147a0d7",
    "resnet50": "a87e91cd6bd1f939e0b723852e567a7205d33b0ac984ac02dd1a5f225d37c036",
    "mobilenet_v3_small": "8fee267f118ca2d792c601972a6569784230d072ae8bdc09f798603f30decf4f",
    "convnext_tiny": "ddd0f74f783edf2b61768911145612faf5673df05b0603b55ea91cff555c52f5",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_and_shapes_are_torchvisions(name: str) -> None:
    lines = sorted(f"{each} {shape}" for each, shape in backbone(name, classes=1000).named_shapes().items())
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == NAMES[name]


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "convnext_tiny"])
def test_the_stages_go_from_a_quarter_to_a_thirtysecond(name: str) -> None:
    network = backbone(name, classes=3).eval()
    pictures = engine.asarray(np.random.default_rng(0).standard_normal((1, 3, 64, 96), np.float32))
    made = network.stages(pictures)
    shapes = [
        (1, channels, 64 // step, 96 // step) for channels, step in zip(network.channels, (4, 8, 16, 32), strict=True)
    ]
    assert [one.shape for one in made] == shapes
    assert network(pictures).shape == (1, 3)


@pytest.mark.parametrize("recipe", ["clothes", "detection", "segmentation"])
def test_a_recipe_takes_a_backbone_and_its_normalization(recipe: str) -> None:
    small = {
        "clothes": [],
        "detection": ["options.pyramid_channels=8", "options.head_depth=1"],
        "segmentation": [f"options.{each}" for each in ("widths=[8, 8, 8]", "tile=64", "margin=16", "flips=false")],
    }
    loaded = load(recipe, ["options.backbone=mobilenet_v3_small", "data.workers=0", "data.cache_gb=0", *small[recipe]])
    task = task_class(loaded.task)(loaded.config, loaded.options)
    task.class_names, task.plan = ("a", "b", "c"), Plan(1, 10)
    task.build()
    set_mode(task, is_training=False)
    names = set(backbone("mobilenet_v3_small", classes=3 if recipe == "clothes" else 0).named_states())
    place = "" if recipe == "clothes" else "backbone."
    assert {f"{place}{name}" for name in names} <= set(task.network.named_states())
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 64, 64), np.uint8)
    mean, std = (np.reshape(each, (3, 1, 1)) for each in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    expected = (pixels / 255 - mean) / std
    normalize = task.network.normalize if recipe == "detection" else task.normalize
    np.testing.assert_allclose(normalize(engine.asarray(pixels)).numpy(), expected, atol=2e-6)
    outputs = task.pipeline().network(engine.asarray(pixels))
    assert all(np.isfinite(value.numpy()).all() for value in outputs.values())
    states = [f"network.{name}" for name in task.network.named_states()]
    matching = [pattern for pattern in task.head if any(fnmatchcase(name, pattern) for name in states)]
    assert matching == [pattern for pattern in task.head if pattern != "network.fc.*"]  # of residual networks


def test_the_normalization_of_the_recipes_has_the_exact_scale() -> None:
    pixels = engine.asarray(np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16))
    for recipe, scale, shift in (("clothes", 1 / 64, 2), ("segmentation", 1 / 64, 2), ("detection", 1 / 127.5, 1)):
        loaded = load(recipe, [])
        normalize = Normalize.of(loaded.declaration.normalization_of(loaded.config.model, loaded.options))
        expected = (pixels.astype(engine.float32) * scale - shift).numpy()
        np.testing.assert_array_equal(normalize(pixels).numpy(), expected)
