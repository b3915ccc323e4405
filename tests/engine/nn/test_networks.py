"""Whole networks: training steps on the cpu device equal the reference device's in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trainer import engine
from trainer.engine import nn
from trainer.engine.nn.functional import relu
from trainer.learner import SGD, Adam


class Bottleneck(nn.Module):
    """He et al. 2015, with the stride in the 3x3 convolution."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or channels != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x):
        y = relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(relu(self.bn2(self.conv2(y)))))
        return relu(y + (x if self.downsample is None else self.downsample(x)))


def resnet(blocks: tuple[int, ...], width: int, classes: int) -> nn.Module:
    layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = width
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Bottleneck(channels, width << stage, 2 if stage and not block else 1))
            channels = 4 * width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class UNet(nn.Module):
    """pix2pix's generator (Isola et al. 2017): `depth` halvings, skips between both halves."""

    def __init__(self, filters: int, depth: int) -> None:
        channels = [min(filters << level, filters * 8) for level in range(depth)]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level in range(depth):
            layers = [nn.LeakyReLU(0.2)] if level else []
            layers.append(nn.Conv2d(channels[level - 1] if level else 3, channels[level], 4, 2, 1))
            layers += [nn.BatchNorm2d(channels[level])] if 0 < level < depth - 1 else []
            self.down.append(nn.Sequential(*layers))
        for level in reversed(range(depth)):
            into = channels[level] * (1 if level == depth - 1 else 2)
            out = channels[level - 1] if level else 3
            layers = [nn.ReLU(), nn.ConvTranspose2d(into, out, 4, 2, 1)]
            self.up.append(nn.Sequential(*layers, *([nn.BatchNorm2d(out)] if level else [])))

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        for number, up in enumerate(self.up):
            x = up(engine.concat([x, skips[-1 - number]], axis=1) if number else x)
        return engine.tanh(x)


def patch_discriminator(filters: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(6, filters, 4, 2, 1), nn.LeakyReLU(0.2)]
    for level, stride in ((0, 2), (1, 2), (2, 1)):
        into, out = filters << level, filters << (level + 1)
        layers += [nn.Conv2d(into, out, 4, stride, 1), nn.BatchNorm2d(out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(filters * 8, 1, 4, 1, 1))


def train_resnet(blocks: tuple[int, ...], width: int, size: int) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses of five steps of SGD with momentum, and the state after."""
    generator = np.random.default_rng(0)
    net = resnet(blocks, width, 10).astype(engine.float64)
    optimizer = SGD(net, 0.01, momentum=0.9)

    def step(images, labels):
        loss = nn.cross_entropy(net(images), labels)
        optimizer.minimize(loss)
        return loss

    traced = engine.trace(step)
    batches = [(generator.normal(size=(2, 3, size, size)), generator.integers(0, 10, 2)) for _ in range(5)]
    return [traced(*batch).item() for batch in batches], net.state_dict()


def train_pix2pix(filters: int, depth: int, size: int) -> tuple[list[float], dict[str, np.ndarray]]:
    """Both losses of five steps of the conditional GAN with two Adams, and the generator's state after."""
    random = np.random.default_rng(0)
    generator = UNet(filters, depth).astype(engine.float64).set_seed(0, "generator")
    discriminator = patch_discriminator(filters).astype(engine.float64).set_seed(0, "discriminator")
    first, second = (Adam(net, 2e-4, betas=(0.5, 0.999)) for net in (generator, discriminator))

    def judged(source, picture, is_real):
        logits = discriminator(engine.concat([source, picture], axis=1))
        return nn.binary_cross_entropy_with_logits(logits, engine.full_like(logits, float(is_real)))

    def step(source, target):
        made = generator(source)
        real = judged(source, target, True)
        second.minimize((real + judged(source, engine.stop_gradient(made), False)) * 0.5)
        loss = judged(source, made, True) + 100 * nn.l1_loss(made, target)
        first.minimize(loss)
        return loss, real

    traced = engine.trace(step)
    batches = [random.uniform(-1, 1, (2, 1, 3, size, size)) for _ in range(5)]
    return [loss.item() for batch in batches for loss in traced(*batch)], generator.state_dict()


NETWORKS: dict[str, Callable[[], tuple[list[float], dict[str, np.ndarray]]]] = {
    "resnet": lambda: train_resnet((1, 2), 8, 32),
    "pix2pix": lambda: train_pix2pix(4, 4, 32),
    "resnet-50": lambda: train_resnet((3, 4, 6, 3), 64, 64),
    "pix2pix-256": lambda: train_pix2pix(8, 8, 256),
}


@pytest.mark.parametrize(
    "name",
    ["resnet", "pix2pix", *(pytest.param(name, marks=pytest.mark.full) for name in ("resnet-50", "pix2pix-256"))],
)
def test_five_steps_equal_the_reference_device(name):
    with engine.device("reference"):
        expected_losses, expected = NETWORKS[name]()
    with engine.device("cpu"):
        losses, state = NETWORKS[name]()
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-9 if "-" not in name else 1e-3)
    for key, value in expected.items():
        deviation = np.linalg.norm(state[key] - value) / max(np.linalg.norm(value), 1e-12)
        assert deviation < 1e-3, (key, deviation)


def test_published_names_of_a_bottleneck():
    assert [name for name in Bottleneck(64, 64, 1).state_dict() if "downsample" in name] == [
        "downsample.0.weight",
        *(f"downsample.1.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")),
    ]
