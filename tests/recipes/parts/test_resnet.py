"""Residual networks are those of the paper, and their states are named as torchvision's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer import engine
from trainer.engine import nn
from trainer.recipes.parts.resnet import BasicBlock, Bottleneck, ResNet

pytestmark = pytest.mark.usefixtures("on_the_reference_device")


@pytest.mark.parametrize(
    ("blocks", "block", "parameters"),  # torchvision's table of models
    [
        pytest.param((2, 2, 2, 2), BasicBlock, 11_689_512, id="resnet18"),
        pytest.param((3, 4, 6, 3), BasicBlock, 21_797_672, id="resnet34"),
        pytest.param((3, 4, 6, 3), Bottleneck, 25_557_032, id="resnet50"),
    ],
)
def test_standard_networks_have_as_many_parameters_as_published(
    blocks: tuple[int, ...], block: type[nn.Module], parameters: int
) -> None:
    network = ResNet(blocks, block)  # type: ignore[arg-type]
    assert sum(math.prod(parameter.shape) for parameter in network.parameters()) == parameters


def test_states_are_named_as_torchvisions() -> None:
    names = set(ResNet((2, 2, 2, 2)).named_states())
    norm = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}
    expected = {"conv1.weight", *(f"bn1.{name}" for name in norm), "fc.weight", "fc.bias"}
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            at = f"layer{stage}.{block}"
            expected |= {f"{at}.conv1.weight", f"{at}.conv2.weight"}
            expected |= {f"{at}.bn{number}.{name}" for number in (1, 2) for name in norm}
            if stage > 1 and not block:
                expected |= {f"{at}.downsample.0.weight", *(f"{at}.downsample.1.{name}" for name in norm)}
    assert names == expected


def test_each_stage_halves_the_picture_and_the_pooled_features_are_the_lasts_mean() -> None:
    network = ResNet((1, 1, 1), width=4, classes=0, stem="small").eval()
    pictures = engine.asarray(np.random.default_rng(0).standard_normal((2, 3, 32, 32), np.float32))
    features = [made.numpy() for made in network.stages(pictures)]
    assert [made.shape for made in features] == [(2, 4, 16, 16), (2, 8, 8, 8), (2, 16, 4, 4)]
    np.testing.assert_allclose(network(pictures).numpy(), features[-1].mean((2, 3)), rtol=1e-5, atol=1e-7)


def test_a_block_begins_as_the_identity() -> None:
    x = np.abs(np.random.default_rng(0).standard_normal((2, 8, 5, 5), np.float32))
    np.testing.assert_array_equal(BasicBlock(8, 8).eval()(engine.asarray(x)).numpy(), x)
