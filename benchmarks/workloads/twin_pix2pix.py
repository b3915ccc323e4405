"""The recipe pix2pix in plain PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch_replay import Batch, Dropout, TwinBase, adam


class Generator(nn.Module):
    """A U-Net down to one pixel and back."""

    def __init__(self, filters: int, depth: int, dropout: float) -> None:
        super().__init__()
        channels = [filters * min(2**level, 8) for level in range(depth)]
        self.down, self.up = nn.ModuleList([nn.Conv2d(3, filters, 4, 2, 1)]), nn.ModuleList()
        for level in range(1, depth):
            inner = level == depth - 1
            convolution = nn.Conv2d(channels[level - 1], channels[level], 4, 2, 1, bias=inner)
            norm = nn.Identity() if inner else nn.InstanceNorm2d(channels[level], affine=True)
            self.down.append(nn.Sequential(nn.LeakyReLU(0.2), convolution, norm))
        for level in range(depth - 1, 0, -1):
            inner = level == depth - 1
            into = channels[level] * (1 if inner else 2)
            convolution = nn.ConvTranspose2d(into, channels[level - 1], 4, 2, 1, bias=False)
            norm = nn.InstanceNorm2d(channels[level - 1], affine=True)
            share = dropout if depth - 4 <= level < depth - 1 else 0.0
            self.up.append(nn.Sequential(nn.ReLU(), convolution, norm, Dropout(share)))
        self.up.append(nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(2 * filters, 3, 4, 2, 1), nn.Tanh()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = []
        for down in self.down:
            x = down(x)
            skipped.append(x)
        x = self.up[0](skipped.pop())
        for up in self.up[1:]:
            x = up(torch.cat([x, skipped.pop()], 1))
        return x


class Discriminator(nn.Module):
    """A PatchGAN."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(6, filters, 4, 2, 1), nn.LeakyReLU(0.2)]
        for level, stride in ((0, 2), (1, 2), (2, 1)):
            into, out = filters << level, filters << (level + 1)
            layers += [nn.Conv2d(into, out, 4, stride, 1, bias=False), nn.InstanceNorm2d(out, affine=True)]
            layers.append(nn.LeakyReLU(0.2))
        self.layers = nn.Sequential(*layers, nn.Conv2d(filters * 8, 1, 4, 1, 1))

    def forward(self, source: torch.Tensor, picture: torch.Tensor) -> torch.Tensor:
        return self.layers(torch.cat([source, picture], 1))


class Twin(TwinBase):
    """A conditional generative adversarial network with an L1 loss."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        options = self.options
        self.generator = Generator(options["filters"], options["depth"], options["dropout"])
        self.discriminator = Discriminator(options["filters"])

    def make_optimizers(self) -> None:
        sections = self.config["optimizers"]
        self.optimizers = {
            f"{name}_optimizer": adam(getattr(self, name), sections[name]) for name in ("generator", "discriminator")
        }

    def train_step(self, batch: Batch) -> dict[str, torch.Tensor]:
        source, target = self.to_floats(batch["image"]), self.to_floats(batch["target"])
        made = self.generator(source)

        real, fake = self.discriminator(source, target), self.discriminator(source, made.detach())
        discriminator = (against(real, 1.0) + against(fake, 0.0)) * 0.5
        self.optimizers["discriminator_optimizer"].zero_grad()
        discriminator.backward()
        self.optimizers["discriminator_optimizer"].step()

        adversarial = against(self.discriminator(source, made), 1.0)
        l1 = F.l1_loss(made, target)
        loss = adversarial + self.options["l1_weight"] * l1
        self.optimizers["generator_optimizer"].zero_grad()
        self.discriminator.requires_grad_(False)
        loss.backward()
        self.discriminator.requires_grad_(True)
        self.optimizers["generator_optimizer"].step()
        return {"loss": loss, "l1": l1, "adversarial": adversarial, "discriminator": discriminator}

    def test(self, batches: list[Batch]) -> dict[str, float]:
        l1 = alike = total = 0.0
        for batch in batches:
            source, target, weight = self.to_floats(batch["image"]), self.to_floats(batch["target"]), batch["weight"]
            made = self.generator(source)
            l1 += ((made - target).abs().mean((1, 2, 3)) * weight).sum().item()
            alike += (ssim((made.double() + 1) / 2, (target.double() + 1) / 2) * weight).sum().item()
            total += weight.sum().item()
        return {"l1": l1 / total, "ssim": alike / total}

    def to_floats(self, pixels: torch.Tensor) -> torch.Tensor:
        return (pixels.float() * (1 / 127.5) - 1).to(self.dtype)


def against(logits: torch.Tensor, right: float) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, right))


def ssim(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Structural similarity (Wang et al. 2004) of pairs of images [B, C, H, W] with values 0 to 1, in 11x11 windows."""
    places = torch.arange(-5, 6, dtype=x.dtype)
    window = torch.exp(-(places**2) / (2 * 1.5**2))
    window = (window / window.sum()).outer(window / window.sum())[None, None].repeat(x.shape[1], 1, 1, 1)
    smooth = [F.conv2d(picture, window, groups=x.shape[1]) for picture in (x, y, x * x, y * y, x * y)]
    mean_x, mean_y = smooth[0], smooth[1]
    spread_x, spread_y, both = smooth[2] - mean_x**2, smooth[3] - mean_y**2, smooth[4] - mean_x * mean_y
    c1, c2 = 0.01**2, 0.03**2
    alike = (2 * mean_x * mean_y + c1) * (2 * both + c2)
    return (alike / ((mean_x**2 + mean_y**2 + c1) * (spread_x + spread_y + c2))).mean((1, 2, 3))
