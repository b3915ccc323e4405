"""The five networks that `unseen.py --draw` selects, written once for both frameworks like those of
`untuned_networks.py`.

They have no dropout, because its random numbers differ between frameworks.
"""

from __future__ import annotations

from typing import Any

import framework as f
import numpy as np
from framework import nn
from untuned_networks import Arrays, Network, classified, classify, conv, head, images, inverted_residual

# --- ConvLSTM (Shi et al. 2015) --------------------------------------------------------------------------------------

FRAMES, PATCHES = 10, (16, 16, 16)
"""Number of input frames, which is also that of predicted frames; a frame's 64x64 pixels as 16x16 patches of 16."""


class ConvLSTMCell(nn.Module):
    """A cell without peepholes; a forecaster's first cell has no input (into = 0)."""

    def __init__(self, into: int, hidden: int) -> None:
        super().__init__()
        self.hidden, self.gates = hidden, nn.Conv2d(into + hidden, 4 * hidden, 5, padding=2)
        self.tanh, self.sigmoid = nn.Tanh(), nn.Sigmoid()

    def forward(self, state: tuple[Any, Any], *x: Any) -> tuple[Any, Any]:
        gates = self.gates(f.concat([*x, state[0]], 1) if x else state[0])
        into, keep, new, out = (gates[:, gate * self.hidden : (gate + 1) * self.hidden] for gate in range(4))
        cell = self.sigmoid(keep) * state[1] + self.sigmoid(into) * self.tanh(new)
        return self.sigmoid(out) * self.tanh(cell), cell


class ConvLSTM(nn.Module):
    """Two layers read the frames [N, T, C, H, W]; two layers that start from their states predict the next frames."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.hidden = hidden
        self.encoder = nn.ModuleList([ConvLSTMCell(PATCHES[0], hidden), ConvLSTMCell(hidden, hidden)])
        self.forecaster = nn.ModuleList([ConvLSTMCell(0, hidden), ConvLSTMCell(hidden, hidden)])
        self.out = nn.Conv2d(2 * hidden, PATCHES[0], 1)

    def forward(self, frames: Any) -> Any:
        zeros = f.constant(np.zeros((frames.shape[0], self.hidden, *PATCHES[1:]), np.float32))
        first, second, made = (zeros, zeros), (zeros, zeros), []
        for time in range(FRAMES):
            first = self.encoder[0](first, frames[:, time])
            second = self.encoder[1](second, first[0])
        for _ in range(FRAMES):
            first = self.forecaster[0](first)
            second = self.forecaster[1](second, first[0])
            made.append(self.out(f.concat([first[0], second[0]], 1))[:, None])
        return f.concat(made, 1)


def films(generator: np.random.Generator, batch: int) -> Arrays:
    past, following = (generator.random((2, batch, FRAMES, *PATCHES)) < 0.1).astype(np.float32)
    return past, following


def forecast(trained: Any, frames: Any, following: Any) -> Any:
    loss = f.binary_cross_entropy_with_logits(trained.apply(frames), following)
    trained.minimize(loss)
    return loss


# --- MobileNetV2 (Sandler et al. 2018) -------------------------------------------------------------------------------


def mobilenet_v2() -> list[Any]:
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    layers, channels = [conv(3, 32, 3, 2, act=nn.ReLU6)], 32
    for expand, out, count, stride in stages:
        for number in range(count):
            step = 1 if number else stride
            layers.append(inverted_residual(channels, out, 3, step, expand, nn.ReLU6, is_gated=False))
            channels = out
    return [nn.Sequential(*layers, conv(channels, 1280, 1, act=nn.ReLU6), *head(1280))]


# --- SqueezeNet 1.1 (Iandola et al. 2016) ----------------------------------------------------------------------------


class Fire(nn.Module):
    def __init__(self, into: int, narrow: int, out: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(into, narrow, 1), f.ReLU())
        self.point = nn.Sequential(nn.Conv2d(narrow, out // 2, 1), f.ReLU())
        self.window = nn.Sequential(nn.Conv2d(narrow, out // 2, 3, padding=1), f.ReLU())

    def forward(self, x: Any) -> Any:
        x = self.squeeze(x)
        return f.concat([self.point(x), self.window(x)], 1)


def squeezenet(classes: int = 1000) -> list[Any]:
    layers, channels = [nn.Conv2d(3, 64, 3, 2), f.ReLU()], 64
    for stage in (((16, 128), (16, 128)), ((32, 256), (32, 256)), ((48, 384), (48, 384), (64, 512), (64, 512))):
        layers.append(nn.MaxPool2d(3, 2))
        for narrow, out in stage:
            layers.append(Fire(channels, narrow, out))
            channels = out
    layers += [nn.Conv2d(channels, classes, 1), f.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return [nn.Sequential(*layers)]


# --- StyleGAN's synthesis network (Karras et al. 2019) ---------------------------------------------------------------


class StyledLayer(nn.Module):
    """Convolution (except in the first layer), fixed noise, and instance norm with scale and shift from the style."""

    def __init__(self, into: int, out: int, size: int, style: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(into, out, 3, padding=1) if into else None
        self.noise = np.random.default_rng(size).standard_normal((size, size), dtype=np.float32)
        self.strength, self.style = f.parameter(out), nn.Linear(style, 2 * out)
        self.act, self.norm = f.LeakyReLU(0.2), nn.InstanceNorm2d(out)

    def forward(self, x: Any, style: Any) -> Any:
        x = x if self.conv is None else self.conv(x)
        x = self.norm(self.act(x + f.reshape(self.strength, (-1, 1, 1)) * f.constant(self.noise)))
        shape = f.reshape(self.style(style), (style.shape[0], 2, -1, 1, 1))
        return x * (shape[:, 0] + 1) + shape[:, 1]


class Synthesis(nn.Module):
    """Generates images of 64x64 pixels from styles [N, 512]."""

    def __init__(self, widths: tuple[int, ...] = (512, 512, 512, 256, 128), style: int = 512) -> None:
        super().__init__()
        self.start, self.layers = f.parameter(widths[0] * 16), nn.ModuleList()
        for level, width in enumerate(widths):
            into = widths[level - 1] if level else 0
            self.layers.append(StyledLayer(into, width, 4 << level, style))
            self.layers.append(StyledLayer(width, width, 4 << level, style))
        self.upsample, self.out = nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(width, 3, 1)

    def forward(self, style: Any) -> Any:
        x = f.reshape(self.start, (1, -1, 4, 4))
        for number, layer in enumerate(self.layers):
            x = layer(self.upsample(x) if number and number % 2 == 0 else x, style)
        return self.out(x)


def styles(generator: np.random.Generator, batch: int) -> Arrays:
    return generator.standard_normal((batch, 512), dtype=np.float32), images(64)(generator, batch)


def synthesize(trained: Any, style: Any, target: Any) -> Any:
    loss = f.mse_loss(trained.apply(style), target)
    trained.minimize(loss)
    return loss


# --- a temporal convolutional network over characters (Bai et al. 2018) ----------------------------------------------


class Causal(nn.Module):
    """A convolution with weight norm over the current and earlier steps."""

    def __init__(self, into: int, out: int, window: int, dilation: int) -> None:
        super().__init__()
        self.later = (window - 1) * dilation
        self.conv = f.weight_norm(nn.Conv1d(into, out, window, padding=self.later, dilation=dilation))

    def forward(self, x: Any) -> Any:
        return self.conv(x)[:, :, : x.shape[2]]


class TemporalBlock(nn.Module):
    def __init__(self, into: int, out: int, dilation: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(Causal(into, out, 3, dilation), f.ReLU(), Causal(out, out, 3, dilation), f.ReLU())
        self.shortcut = nn.Conv1d(into, out, 1) if into != out else None
        self.act = f.ReLU()

    def forward(self, x: Any) -> Any:
        return self.act(self.layers(x) + (x if self.shortcut is None else self.shortcut(x)))


class TemporalNetwork(nn.Module):
    def __init__(self, characters: int = 50, embedded: int = 100, width: int = 450, blocks: int = 3) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(characters, embedded), nn.Conv1d(width, characters, 1)
        widths = (embedded, *[width] * blocks)
        self.blocks = nn.Sequential(*(TemporalBlock(widths[i], widths[i + 1], 1 << i) for i in range(blocks)))

    def forward(self, tokens: Any) -> Any:
        return self.head(self.blocks(f.permute(self.tokens(tokens), (0, 2, 1))))


def characters(generator: np.random.Generator, batch: int) -> Arrays:
    return generator.integers(0, 50, (batch, 320)), generator.integers(0, 50, (batch, 320))


NETWORKS = {
    "conv_lstm": Network(lambda: [ConvLSTM()], films, forecast, 4, "adam"),
    "mobilenet_v2": Network(mobilenet_v2, classified(224), classify, 8),
    "squeezenet": Network(squeezenet, classified(224), classify, 16),
    "stylegan_synthesis": Network(lambda: [Synthesis()], styles, synthesize, 4, "adam"),
    "temporal_convolution": Network(lambda: [TemporalNetwork()], characters, classify, 16, "adam"),
}
