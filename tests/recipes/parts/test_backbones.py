"""Backbones have the sizes and the parameter names that torchvision publishes."""

from __future__ import annotations

import math
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

PARAMETERS = {  # torchvision's table of models
    "resnet18": 11_689_512, "resnet50": 25_557_032, "mobilenet_v3_small": 2_542_856, "convnext_tiny": 28_589_128,
}  # fmt: skip

NAMES = {
    "mobilenet_v3_small": {
        "features.0.0.weight": (16, 3, 3, 3),
        "features.0.1.running_var": (16,),
        "features.1.block.0.0.weight": (16, 1, 3, 3),
        "features.1.block.1.fc1.weight": (8, 16, 1, 1),
        "features.1.block.1.fc2.bias": (16,),
        "features.1.block.2.0.weight": (16, 16, 1, 1),
        "features.4.block.2.fc1.weight": (24, 96, 1, 1),
        "features.11.block.3.1.bias": (96,),
        "features.12.0.weight": (576, 96, 1, 1),
        "classifier.0.weight": (1024, 576),
        "classifier.3.bias": (1000,),
    },
    "convnext_tiny": {
        "features.0.0.bias": (96,),
        "features.0.1.weight": (96,),
        "features.1.0.layer_scale": (96, 1, 1),
        "features.1.2.block.0.weight": (96, 1, 7, 7),
        "features.1.2.block.2.weight": (96,),
        "features.1.2.block.3.weight": (384, 96),
        "features.1.2.block.5.weight": (96, 384),
        "features.2.0.bias": (96,),
        "features.2.1.weight": (192, 96, 2, 2),
        "features.5.8.block.5.bias": (384,),
        "classifier.0.weight": (768,),
        "classifier.2.weight": (1000, 768),
    },
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_backbone_has_as_many_parameters_as_published(name: str) -> None:
    network = backbone(name, classes=1000)
    shapes = network.named_shapes()
    counted = {each: shape for each, shape in shapes.items() if ".running_" not in each and "num_batches" not in each}
    counted = {each: shape for each, shape in counted.items() if not each.endswith(("running_mean", "running_var"))}
    assert sum(math.prod(shape) for shape in counted.values()) == PARAMETERS[name]
    assert {each: shapes.get(each) for each in NAMES.get(name, {})} == NAMES.get(name, {})


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
    for pattern in task.head:
        if recipe != "clothes":
            assert any(fnmatchcase(f"network.{name}", pattern) for name in task.network.named_states())


def test_the_normalization_of_the_recipes_has_the_exact_scale() -> None:
    pixels = engine.asarray(np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16))
    for recipe, scale, shift in (("clothes", 1 / 64, 2), ("segmentation", 1 / 64, 2), ("detection", 1 / 127.5, 1)):
        loaded = load(recipe, [])
        normalize = Normalize.of(loaded.declaration.normalization_of(loaded.config.model, loaded.options))
        expected = (pixels.astype(engine.float32) * scale - shift).numpy()
        np.testing.assert_array_equal(normalize(pixels).numpy(), expected)
