"""The networks of these tests are the published ones: names, shapes and numbers of parameters."""

from __future__ import annotations

from math import prod

import pytest

from tests.engine.networks.networks import ResNet, UNet, lsgan_discriminator, lsgan_generator, patch_discriminator
from trainer.engine import nn


def shapes(net: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: state.shape for name, state in net.named_states().items()}


def test_resnet_50_has_the_published_names_and_shapes() -> None:
    found = shapes(ResNet())
    assert len(found) == 320  # as torchvision's resnet50().state_dict()
    expected = {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.running_mean": (64,),
        "layer1.0.conv1.weight": (64, 64, 1, 1),
        "layer1.0.downsample.0.weight": (256, 64, 1, 1),
        "layer1.0.downsample.1.num_batches_tracked": (),
        "layer2.0.conv2.weight": (128, 128, 3, 3),
        "layer3.5.bn3.weight": (1024,),
        "layer4.2.conv3.weight": (2048, 512, 1, 1),
        "fc.weight": (1000, 2048),
        "fc.bias": (1000,),
    }
    assert {name: found.get(name) for name in expected} == expected


def count(net: nn.Module, without_biases_of: tuple[str, ...] = ()) -> int:
    left_out = {f"{name}.bias" for name in without_biases_of}
    return sum(prod(state.shape) for name, state in net.named_parameters().items() if name not in left_out)


# pix2pix's authors print 54.414 M and 2.769 M for networks without the biases that batch norms take away
@pytest.mark.parametrize(
    ("net", "biases", "parameters"),
    [
        pytest.param(ResNet(), (), 25_557_032, id="resnet-50"),
        pytest.param(
            UNet(),
            (*(f"down.{level}.1" for level in range(1, 8)), "down.0.0", *(f"up.{level}.1" for level in range(7))),
            54_413_955,
            id="u-net",
        ),
        pytest.param(patch_discriminator(), ("2", "5", "8"), 2_768_705, id="patchgan"),
        # as PyTorch counts for the same layers
        pytest.param(lsgan_generator(), (), 18_804_995, id="lsgan-generator"),
        pytest.param(lsgan_discriminator(), (), 4_333_441, id="lsgan-discriminator"),
    ],
)
def test_number_of_parameters(net: nn.Module, biases: tuple[str, ...], parameters: int) -> None:
    assert count(net, biases) == parameters
