"""The U-Net: sizes, how far it sees, that a compiled step is the reference's."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.recipes.parts.backbones import backbone
from trainer.recipes.parts.unet import UNet


@pytest.mark.parametrize("reduction", [1, 2, 4])
def test_maps_are_smaller_than_the_picture_by_the_reduction(reduction: int) -> None:
    with engine.device("reference"):
        network = UNet(3, 5, (4, 6, 8), reduction).set_seed(0).eval()
        assert network.multiple == 4 * reduction
        assert network(engine.zeros((2, 3, 16, 32))).shape == (2, 5, 16 // reduction, 32 // reduction)
        with pytest.raises(TrainerError, match=f"multiples of {4 * reduction}"):
            network(engine.zeros((2, 3, 16, 18)))


def test_a_backbone_needs_a_width_for_each_resolution_but_the_lowest() -> None:
    with pytest.raises(TrainerError, match="fewer widths"):
        UNet(3, 5, (8, 8), backbone=backbone("mobilenet_v3_small"))


def test_a_pixel_is_seen_across_the_whole_picture_and_in_detail() -> None:
    """What comes from the smallest size reaches far; what the skips bring keeps a pixel's place."""
    with engine.device("reference"):
        network = UNet(1, 1, (4, 4, 4, 4)).astype(engine.float64).set_seed(0).eval()
        image = engine.asarray(np.random.default_rng(0).normal(size=(1, 1, 64, 64)))
        (gradient,) = engine.gradients(network(image)[0, 0, 32, 32], [image])
        reach = np.abs(gradient.numpy()[0, 0])
    assert (reach[32] > 0).sum() > 40
    assert reach[30:35, 30:35].max() == reach.max()


def test_a_compiled_step_equals_the_reference() -> None:
    generator = np.random.default_rng(0)
    image, labels = generator.normal(size=(2, 3, 16, 16)).astype(np.float32), generator.integers(0, 3, (2, 16, 16))
    found = []
    for device in ("cpu", "reference"):
        with engine.device(device):
            network = UNet(3, 3, (8, 12), 2).set_seed(0)

            def step(x, y, network=network):  # type: ignore[no-untyped-def]
                loss = nn.cross_entropy(network(x), y[:, ::2, ::2])
                return [loss, *engine.gradients(loss, list(network.named_parameters().values()))]

            found.append([result.numpy() for result in engine.trace(step)(image, labels)])
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
