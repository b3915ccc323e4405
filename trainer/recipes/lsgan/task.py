"""Generates images from noise with a least-squares GAN (LSGAN, Mao et al. 2017).

The discriminator D learns to output b for real images x and a for generated images G(z). The generator G learns to make
it output c:

    minimize over D   1/2 E[(D(x) - b)²] + 1/2 E[(D(G(z)) - a)²]
    minimize over G   1/2 E[(D(G(z)) - c)²]
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from trainer import engine
from trainer.datasets import loaders
from trainer.engine import Tensor, float32, nn, uint8
from trainer.learner import Batch, DataSplits, Sample, Task
from trainer.metrics import Mean, Predictions

from .options import DECLARATION, Options

SHOWN = 8  # rows and columns of the sheet of samples


class LSGAN(Task):
    """Generates images that a discriminator can't distinguish from photos."""

    options: Options

    def data(self) -> DataSplits:
        splits = DataSplits(**loaders(self.read_splits(*DECLARATION.fields), self.config))
        self.size = splits.train.batch(0, 0)["image"].shape[2]
        return splits

    def build(self) -> None:
        options = self.options
        widths = [options.filters << level for level in range(options.halvings)]
        self.generator = generator(options.noise, widths, self.size)
        self.discriminator = discriminator(widths, self.size)
        self.generator_optimizer = self.optimizer_for(self.generator, "generator")
        self.discriminator_optimizer = self.optimizer_for(self.discriminator, "discriminator")

    def train_step(self, batch: Batch) -> dict[str, Mean]:
        options, photos, weight = self.options, from_pixels(batch["image"]), batch["weight"]
        made = self.generator(nn.random.active().normal("noise", (len(photos), options.noise)))

        on_photos = half_square(self.discriminator(photos) - options.real)
        on_made = half_square(self.discriminator(engine.stop_gradient(made)) - options.fake)
        discriminator_loss = Mean(on_photos + on_made, weight)
        self.discriminator_optimizer.minimize(discriminator_loss.value)

        generator_loss = Mean(half_square(self.discriminator(made) - options.generator_target), weight)
        self.generator_optimizer.minimize(generator_loss.value)
        return {"discriminator_loss": discriminator_loss, "generator_loss": generator_loss}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        photos, weight = from_pixels(batch["image"]), batch["weight"]
        made = self.generator(self.fixed_noise(len(photos)))
        pictures = Predictions(predicted=made, target=photos, weight=weight)
        return {"discriminator_output": Mean(self.discriminator(made)[:, 0], weight), "pictures": pictures}

    def fixed_noise(self, count: int) -> Tensor:
        """The same noise [count, noise] every time, so that images of different epochs can be compared."""
        drawn = np.random.default_rng(self.config.seed).standard_normal((count, self.options.noise), np.float32)
        return engine.asarray(drawn)

    def samples(self, batch: Batch) -> list[Sample]:
        """A sheet of images generated from the same noise every time."""
        made = self.generator(self.fixed_noise(SHOWN * SHOWN))
        pixels = engine.clip(made * 127.5 + 127.5, 0, 255).astype(uint8).numpy()
        rows = pixels.reshape(SHOWN, SHOWN, *pixels.shape[1:]).transpose(0, 3, 1, 4, 2)
        return [Sample("sheet", np.ascontiguousarray(rows.reshape(SHOWN * self.size, SHOWN * self.size, 3)))]


def generator(noise: int, widths: list[int], size: int) -> nn.Sequential:
    """[N, noise] to images [N, 3, size, size] in (-1, 1): 5x5 transposed convolutions, each doubling the size."""
    first = size >> len(widths)
    layers: list[nn.Module] = [
        nn.Linear(noise, widths[-1] * first * first),
        nn.Unflatten(1, (widths[-1], first, first)),
    ]
    layers += [nn.BatchNorm2d(widths[-1]), nn.ReLU()]
    for narrow, wide in reversed(list(pairwise(widths))):
        layers += [doubling(wide, narrow), nn.BatchNorm2d(narrow), nn.ReLU()]
    return nn.Sequential(*layers, doubling(widths[0], 3), nn.Tanh())


def discriminator(widths: list[int], size: int) -> nn.Sequential:
    """Images [N, 3, size, size] to an unbounded score [N, 1]: 5x5 convolutions, each halving the size."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 5, 2, 2), nn.LeakyReLU(0.2)]
    for narrow, wide in pairwise(widths):
        layers += [nn.Conv2d(narrow, wide, 5, 2, 2), nn.BatchNorm2d(wide), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(widths[-1] * (size >> len(widths)) ** 2, 1))


def doubling(in_channels: int, out_channels: int) -> nn.ConvTranspose2d:
    """Transposed convolution from [N, C, H, W] to [N, K, 2H, 2W]."""
    return nn.ConvTranspose2d(in_channels, out_channels, 5, stride=2, padding=2, output_padding=1)


def half_square(difference: Tensor) -> Tensor:
    """Half the square of differences [N, 1], as [N]."""
    return 0.5 * difference[:, 0] * difference[:, 0]


def from_pixels(images: Tensor) -> Tensor:
    """Converts uint8 0 to 255 to float32 -1 to 1."""
    return images.astype(float32) * (1 / 127.5) - 1
