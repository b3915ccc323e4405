"""The networks of pix2pix: the paper's shapes, the discriminator's patch, and what their weights begin with."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from trainer import engine
from trainer.engine import nn
from trainer.recipes.parts.normal_weights import with_normal_weights
from trainer.recipes.parts.patchgan import PatchDiscriminator
from trainer.recipes.parts.pix2pix_generator import Pix2PixGenerator

pytestmark = pytest.mark.usefixtures("on_the_reference_device")


def test_the_generator_is_the_papers() -> None:
    """54.4 million weights (U-Net of 64 filters for 256 pixels), most of them in the eight levels' 512 channels."""
    generator = Pix2PixGenerator()
    shapes = generator.named_shapes()
    convolutions = sum(int(np.prod(shape)) for shape in shapes.values() if len(shape) == 4)
    encoder = [3, 64, 128, 256, 512, 512, 512, 512, 512]
    decoder = [(512, 512), (1024, 512), (1024, 512), (1024, 512), (1024, 256), (512, 128), (256, 64), (128, 3)]
    assert convolutions == 16 * (sum(a * b for a, b in pairwise(encoder))
                                 + sum(a * b for a, b in decoder))  # fmt: skip
    dropping = [module.p for module in generator.up.modules() if isinstance(module, nn.Dropout)]
    assert dropping == [0.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0]


def test_each_judgement_sees_a_patch_of_70_pixels() -> None:
    """A change outside of the window leaves it alone, but for the norms: here they are taken out."""
    network = with_normal_weights(PatchDiscriminator(filters=2)).set_seed(3)
    layers = nn.Sequential(*(layer for layer in network.layers if not isinstance(layer, nn.InstanceNorm2d)))
    picture = np.random.default_rng(0).normal(size=(1, 6, 128, 128)).astype(np.float32)
    logits = layers(engine.asarray(picture)).numpy()
    assert logits.shape == (1, 1, 14, 14)
    middle = logits[0, 0, 7, 7]
    rows = []
    for row in range(128):
        changed = picture.copy()
        changed[0, :, row] += 5
        if layers(engine.asarray(changed)).numpy()[0, 0, 7, 7] != middle:
            rows.append(row)
    assert rows == list(range(rows[0], rows[0] + 70))


def test_weights_begin_as_dcgans() -> None:
    network = with_normal_weights(Pix2PixGenerator(filters=8)).set_seed(0)
    weights = np.concatenate([value.ravel() for value in network.state_dict().values() if value.ndim == 4])
    assert abs(weights.mean()) < 1e-4 and weights.std() == pytest.approx(0.02, rel=0.01)
    scales = [value for name, value in network.state_dict().items() if value.ndim == 1 and name.endswith("weight")]
    assert np.concatenate(scales).mean() == pytest.approx(1, abs=0.01)
    assert all(not value.any() for name, value in network.state_dict().items() if name.endswith("bias"))
