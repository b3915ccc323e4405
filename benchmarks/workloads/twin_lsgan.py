"""The recipe lsgan in plain PyTorch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch_replay import Batch, TwinBase, adam


def generator(noise: int, widths: list[int], size: int) -> nn.Sequential:
    """Maps noise to images by transposed convolutions that double the size."""
    first = size >> len(widths)
    layers: list[nn.Module] = [
        nn.Linear(noise, widths[-1] * first * first),
        nn.Unflatten(1, (widths[-1], first, first)),
        nn.BatchNorm2d(widths[-1]),
        nn.ReLU(),
    ]
    for narrow, wide in reversed(list(pairwise(widths))):
        layers += [nn.ConvTranspose2d(wide, narrow, 5, 2, 2, 1), nn.BatchNorm2d(narrow), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(widths[0], 3, 5, 2, 2, 1), nn.Tanh())


def discriminator(widths: list[int], size: int) -> nn.Sequential:
    """Maps each image to a number by convolutions that halve the size."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 5, 2, 2), nn.LeakyReLU(0.2)]
    for narrow, wide in pairwise(widths):
        layers += [nn.Conv2d(narrow, wide, 5, 2, 2), nn.BatchNorm2d(wide), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(widths[-1] * (size >> len(widths)) ** 2, 1))


class Twin(TwinBase):
    """A generative adversarial network with squared errors."""

    def __init__(self, config: dict[str, Any], image_size: int) -> None:
        super().__init__(config)
        options = self.options
        widths = [options["filters"] << level for level in range(options["halvings"])]
        self.generator = generator(options["noise"], widths, image_size)
        self.discriminator = discriminator(widths, image_size)

    def make_optimizers(self) -> None:
        sections = self.config["optimizers"]
        self.optimizers = {
            f"{name}_optimizer": adam(getattr(self, name), sections[name]) for name in ("generator", "discriminator")
        }

    def train_step(self, batch: Batch) -> dict[str, torch.Tensor]:
        options, weight = self.options, batch["weight"].to(self.dtype)
        photos = (batch["image"].float() * (1 / 127.5) - 1).to(self.dtype)
        made = self.generator(self.normal["noise"].popleft().to(self.dtype))

        real, fake = self.discriminator(photos), self.discriminator(made.detach())
        wrong = half_square(real, options["real"]) + half_square(fake, options["fake"])
        discriminator_loss = (wrong * weight).sum() / weight.sum()
        self.optimizers["discriminator_optimizer"].zero_grad()
        discriminator_loss.backward()
        self.optimizers["discriminator_optimizer"].step()

        generator_error = half_square(self.discriminator(made), options["generator_target"])
        generator_loss = (generator_error * weight).sum() / weight.sum()
        self.optimizers["generator_optimizer"].zero_grad()
        self.discriminator.requires_grad_(False)
        generator_loss.backward()
        self.discriminator.requires_grad_(True)
        self.optimizers["generator_optimizer"].step()
        return {"discriminator_loss": discriminator_loss, "generator_loss": generator_loss}


def half_square(judged: torch.Tensor, right: float) -> torch.Tensor:
    return 0.5 * (judged[:, 0] - right).square()
