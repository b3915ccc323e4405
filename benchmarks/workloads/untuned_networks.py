"""Ten networks for which no kernel was tuned, each written once: `framework` is the engine or PyTorch.

They have the published sizes, but fewer blocks where a training step would take PyTorch more than about two seconds.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import framework as f
import numpy as np
from framework import nn

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Network:
    """A network (or a generator and its discriminator), its training step and its data.

    inputs: arrays of a batch; inference uses only the first. step: updates the parameters of a `framework.Trained` on
    the inputs, and returns the loss.
    """

    build: Callable[[], list[Any]]
    inputs: Callable[[np.random.Generator, int], Arrays]
    step: Callable[..., Any]
    batch: int
    optimizer: str = "sgd"


def initial(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the initial value of a parameter or buffer: a function of its name, for both frameworks."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    if name.endswith("running_var"):
        return np.ones(shape, np.float32)
    if len(shape) < 2:
        noise = 0.1 * generator.standard_normal(shape, dtype=np.float32)
        return noise + np.float32(name.endswith("weight"))
    scale = (1.5 / np.prod(shape[1:])) ** 0.5 if not name.startswith(("tokens", "places")) else 0.05
    return generator.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def images(size: int | tuple[int, int], channels: int = 3) -> Callable[[np.random.Generator, int], np.ndarray]:
    height, width = (size, size) if isinstance(size, int) else size
    return lambda generator, batch: generator.standard_normal((batch, channels, height, width), dtype=np.float32)


def classified(size: int, classes: int = 1000) -> Callable[[np.random.Generator, int], Arrays]:
    """Images and their classes."""
    return lambda generator, batch: (images(size)(generator, batch), generator.integers(0, classes, batch))


def classify(trained: Any, x: Any, labels: Any) -> Any:
    loss = f.cross_entropy(trained.apply(x), labels)
    trained.minimize(loss)
    return loss


def conv(into: int, out: int, window: int = 3, stride: int = 1, groups: int = 1, act: Any = f.ReLU) -> Any:
    """Convolution without a bias, batch norm, activation."""
    layers = [nn.Conv2d(into, out, window, stride, (window - 1) // 2, groups=groups, bias=False), nn.BatchNorm2d(out)]
    return nn.Sequential(*layers, *([act()] if act else []))


def head(channels: int, classes: int = 1000) -> list[Any]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


class Residual(nn.Module):
    """x + layers(x)."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        return x + self.layers(x)


# --- DenseNet (Huang et al. 2017) ------------------------------------------------------------------------------------


class DenseLayer(nn.Module):
    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(channels), f.ReLU(), nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), f.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return f.concat([x, self.layers(x)], 1)


def densenet(blocks: tuple[int, ...] = (4, 8, 12, 8), growth: int = 32) -> list[Any]:
    channels = 64
    layers = [nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), f.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for number, count in enumerate(blocks):
        if number:
            layers += [nn.BatchNorm2d(channels), f.ReLU(), nn.Conv2d(channels, channels // 2, 1, bias=False)]
            layers += [nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(count):
            layers.append(DenseLayer(channels, growth))
            channels += growth
    return [nn.Sequential(*layers, nn.BatchNorm2d(channels), f.ReLU(), *head(channels))]


# --- EfficientNet-B0 (Tan & Le 2019) ---------------------------------------------------------------------------------


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, narrow: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, narrow, 1), nn.SiLU(), nn.Conv2d(narrow, channels, 1),
            nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return x * self.gate(x)


def inverted_residual(
    into: int, out: int, window: int, stride: int, expand: int, act: Any = nn.SiLU, is_gated: bool = True
) -> Any:
    wide = into * expand
    layers = [conv(into, wide, 1, act=act)] if expand > 1 else []
    layers += [conv(wide, wide, window, stride, wide, act)] + ([SqueezeExcite(wide, into // 4)] if is_gated else [])
    layers += [conv(wide, out, 1, act=None)]
    return Residual(*layers) if stride == 1 and into == out else nn.Sequential(*layers)


def efficientnet() -> list[Any]:
    stages = ((1, 16, 1, 3, 1), (6, 24, 2, 3, 2), (6, 40, 2, 5, 2), (6, 80, 3, 3, 2), (6, 112, 3, 5, 1),
              (6, 192, 4, 5, 2), (6, 320, 1, 3, 1))  # fmt: skip
    layers, channels = [conv(3, 32, 3, 2, act=nn.SiLU)], 32
    for expand, out, count, window, stride in stages:
        for number in range(count):
            layers.append(inverted_residual(channels, out, window, 1 if number else stride, expand))
            channels = out
    return [nn.Sequential(*layers, conv(channels, 1280, 1, act=nn.SiLU), *head(1280))]


# --- ConvNeXt (Liu et al. 2022) --------------------------------------------------------------------------------------


class ChannelsFirstNorm(nn.Module):
    """Layer norm of the channels of [N, C, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels, eps=1e-6)

    def forward(self, x: Any) -> Any:
        return f.permute(self.norm(f.permute(x, (0, 2, 3, 1))), (0, 3, 1, 2))


class ConvNeXtBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.layers = nn.Sequential(
            nn.LayerNorm(channels, eps=1e-6), nn.Linear(channels, 4 * channels), nn.GELU(),
            nn.Linear(4 * channels, channels),
        )  # fmt: skip
        self.scale = f.parameter(channels)

    def forward(self, x: Any) -> Any:
        y = self.layers(f.permute(self.depthwise(x), (0, 2, 3, 1)))
        return x + f.permute(y * self.scale, (0, 3, 1, 2))


def convnext(blocks: tuple[int, ...] = (2, 2, 6, 2), width: int = 96) -> list[Any]:
    layers: list[Any] = []
    for number, count in enumerate(blocks):
        channels = width << number
        down = [nn.Conv2d(3, width, 4, 4), ChannelsFirstNorm(width)]
        if number:
            down = [ChannelsFirstNorm(channels // 2), nn.Conv2d(channels // 2, channels, 2, 2)]
        layers += [*down, *(ConvNeXtBlock(channels) for _ in range(count))]
    return [nn.Sequential(*layers, *head(channels))]


# --- Swin (Liu et al. 2021) ------------------------------------------------------------------------------------------


class WindowAttention(nn.Module):
    """Attention within windows of `window` x `window` tokens of [N, H, W, C]; every second block shifts by half."""

    def __init__(self, channels: int, size: int, heads: int, shifted: bool, window: int = 7) -> None:
        super().__init__()
        self.channels, self.size, self.heads, self.window = channels, size, heads, window
        self.shift = window // 2 if shifted and size > window else 0
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.tokens_bias = nn.Embedding((2 * window - 1) ** 2, heads)
        rows, columns = np.divmod(np.arange(window**2), window)
        difference = [each[:, None] - each[None, :] + window - 1 for each in (rows, columns)]
        self.places = difference[0] * (2 * window - 1) + difference[1]
        self.mask = None
        if self.shift:
            bounds = np.digitize(np.arange(size), (size - window, size - self.shift))
            regions = self._windows_of(bounds[:, None] * 3 + bounds[None, :])
            self.mask = np.where(regions[:, None, :] == regions[:, :, None], 0, -100).astype(np.float32)[:, None]

    def _windows_of(self, image: np.ndarray) -> np.ndarray:
        count, window = self.size // self.window, self.window
        return image.reshape(count, window, count, window).swapaxes(1, 2).reshape(count**2, window**2)

    def forward(self, x: Any) -> Any:
        batch, size, window, heads, channels = x.shape[0], self.size, self.window, self.heads, self.channels
        count, shift, tokens = size // window, self.shift, window**2
        if shift:
            x = f.roll(x, (-shift, -shift), (1, 2))
        x = f.permute(f.reshape(x, (batch, count, window, count, window, channels)), (0, 1, 3, 2, 4, 5))
        x = self.qkv(f.reshape(x, (batch * count**2, tokens, channels)))
        x = f.permute(f.reshape(x, (batch * count**2, tokens, 3, heads, channels // heads)), (2, 0, 3, 1, 4))
        bias = f.permute(self.tokens_bias(f.constant(self.places)), (2, 0, 1))[None]
        if self.mask is not None:
            mask = bias + f.constant(self.mask)
            bias = f.concat([mask] * batch, 0) if batch > 1 else mask
        x = f.functional.scaled_dot_product_attention(x[0], x[1], x[2], attn_mask=bias)
        x = self.out(f.reshape(f.permute(x, (0, 2, 1, 3)), (batch * count**2, tokens, channels)))
        x = f.permute(f.reshape(x, (batch, count, count, window, window, channels)), (0, 1, 3, 2, 4, 5))
        x = f.reshape(x, (batch, size, size, channels))
        return f.roll(x, (shift, shift), (1, 2)) if shift else x


class PatchMerging(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * channels), nn.Linear(4 * channels, 2 * channels, bias=False)

    def forward(self, x: Any) -> Any:
        parts = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.reduction(self.norm(f.concat(parts, -1)))


class ToTokens(nn.Module):
    """Permutes [N, C, H, W] to [N, H, W, C], or back."""

    def __init__(self, order: tuple[int, ...] = (0, 2, 3, 1)) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: Any) -> Any:
        return f.permute(x, self.order)


def swin(blocks: tuple[int, ...] = (2, 2, 4, 2), width: int = 96) -> list[Any]:
    layers: list[Any] = [nn.Conv2d(3, width, 4, 4), ToTokens(), nn.LayerNorm(width)]
    for stage, count in enumerate(blocks):
        channels, size = width << stage, 56 >> stage
        layers += [PatchMerging(channels // 2)] if stage else []
        for block in range(count):
            attention = WindowAttention(channels, size, 3 << stage, shifted=block % 2 == 1)
            layers.append(Residual(nn.LayerNorm(channels), attention))
            layers.append(Residual(nn.LayerNorm(channels), *feed_forward(channels)))
    return [nn.Sequential(*layers, nn.LayerNorm(channels), ToTokens((0, 3, 1, 2)), *head(channels))]


def feed_forward(channels: int) -> list[Any]:
    return [nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)]


# --- a detector of three heads (YOLOv5's parts: Jocher et al. 2020) --------------------------------------------------


class CrossStage(nn.Module):
    """Half of the channels pass through bottlenecks (Wang et al. 2020)."""

    def __init__(self, into: int, out: int, count: int) -> None:
        super().__init__()
        half = out // 2
        self.first, self.second, self.last = (
            conv(a, b, 1, act=nn.SiLU) for a, b in ((into, half), (into, half), (2 * half, out))
        )
        self.blocks = nn.Sequential(
            *(Residual(conv(half, half, 1, act=nn.SiLU), conv(half, half, act=nn.SiLU)) for _ in range(count))
        )

    def forward(self, x: Any) -> Any:
        return self.last(f.concat([self.blocks(self.first(x)), self.second(x)], 1))


class Detector(nn.Module):
    """Three maps of box, objectness and 20 classes at strides 8, 16 and 32."""

    def __init__(self, width: int = 32, outputs: int = 75) -> None:
        super().__init__()
        w = width
        stages = ((1, 2, 1), (2, 4, 2), (4, 8, 2), (8, 16, 1))
        self.stem = conv(3, w, 6, 2, act=nn.SiLU)
        self.stages = nn.ModuleList(
            [
                nn.Sequential(conv(a * w, b * w, 3, 2, act=nn.SiLU), CrossStage(b * w, b * w, count))
                for a, b, count in stages
            ]
        )
        self.reduce = nn.ModuleList([conv(16 * w, 8 * w, 1, act=nn.SiLU), conv(8 * w, 4 * w, 1, act=nn.SiLU)])
        self.up = nn.ModuleList([CrossStage(16 * w, 8 * w, 1), CrossStage(8 * w, 4 * w, 1)])
        self.halve = nn.ModuleList([conv(4 * w, 4 * w, 3, 2, act=nn.SiLU), conv(8 * w, 8 * w, 3, 2, act=nn.SiLU)])
        self.down = nn.ModuleList([CrossStage(8 * w, 8 * w, 1), CrossStage(16 * w, 16 * w, 1)])
        self.heads = nn.ModuleList([nn.Conv2d(size * w, outputs, 1) for size in (4, 8, 16)])
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x: Any) -> Any:
        x, found = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        deep = self.reduce[0](x)
        middle = self.reduce[1](self.up[0](f.concat([self.upsample(deep), found[2]], 1)))
        small = self.up[1](f.concat([self.upsample(middle), found[1]], 1))
        medium = self.down[0](f.concat([self.halve[0](small), middle], 1))
        large = self.down[1](f.concat([self.halve[1](medium), deep], 1))
        return tuple(each(map_) for each, map_ in zip(self.heads, (small, medium, large), strict=True))


def detector_inputs(generator: np.random.Generator, batch: int) -> Arrays:
    """Returns images of 320x320 pixels, and 0 or 1 as the target of each output of the three maps."""
    maps = (generator.random((batch, 75, 320 // stride, 320 // stride)) < 0.1 for stride in (8, 16, 32))
    return images(320)(generator, batch), *(each.astype(np.float32) for each in maps)


def detect(trained: Any, x: Any, *targets: Any) -> Any:
    outputs = trained.apply(x)
    loss = sum(f.binary_cross_entropy_with_logits(y, target) for y, target in zip(outputs, targets, strict=True))
    trained.minimize(loss)
    return loss


# --- stacked hourglass (Newell et al. 2016) --------------------------------------------------------------------------


def bottleneck(channels: int) -> Any:
    return Residual(
        conv(channels, channels // 2, 1), conv(channels // 2, channels // 2), conv(channels // 2, channels, 1)
    )


class Hourglass(nn.Module):
    def __init__(self, channels: int, depth: int) -> None:
        super().__init__()
        self.skip, self.pool = bottleneck(channels), nn.MaxPool2d(2)
        self.before, self.after = bottleneck(channels), bottleneck(channels)
        self.inner = Hourglass(channels, depth - 1) if depth > 1 else bottleneck(channels)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x: Any) -> Any:
        return self.skip(x) + self.upsample(self.after(self.inner(self.before(self.pool(x)))))


class StackedHourglass(nn.Module):
    """Two stacks of depth 4 on 64x64 pixels, with 16 heatmaps each."""

    def __init__(self, channels: int = 192, maps: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 64, 7, 2), conv(64, channels), nn.MaxPool2d(2), bottleneck(channels))
        self.stacks = nn.ModuleList(
            [nn.Sequential(Hourglass(channels, 4), conv(channels, channels, 1)) for _ in range(2)]
        )
        self.heads = nn.ModuleList([nn.Conv2d(channels, maps, 1) for _ in range(2)])
        self.back = nn.Conv2d(maps, channels, 1)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        features = self.stacks[0](x)
        first = self.heads[0](features)
        return first, self.heads[1](self.stacks[1](x + features + self.back(first)))


def heatmaps(generator: np.random.Generator, batch: int) -> Arrays:
    return images(256)(generator, batch), images(64, 16)(generator, batch)


def locate(trained: Any, x: Any, target: Any) -> Any:
    first, second = trained.apply(x)
    loss = f.mse_loss(first, target) + f.mse_loss(second, target)
    trained.minimize(loss)
    return loss


# --- DCGAN (Radford et al. 2016) -------------------------------------------------------------------------------------


def dcgan(filters: int = 64, noise: int = 100) -> list[Any]:
    """Generator and discriminator of 64x64 pixels."""
    widths = [filters << level for level in (3, 2, 1, 0)]
    up = [nn.ConvTranspose2d(noise, widths[0], 4, 1, 0, bias=False), nn.BatchNorm2d(widths[0]), f.ReLU()]
    down = [nn.Conv2d(3, filters, 4, 2, 1, bias=False), f.LeakyReLU(0.2)]
    for wide, narrow in itertools.pairwise(widths):
        up += [nn.ConvTranspose2d(wide, narrow, 4, 2, 1, bias=False), nn.BatchNorm2d(narrow), f.ReLU()]
    for wide, narrow in reversed(list(itertools.pairwise(widths))):
        down += [nn.Conv2d(narrow, wide, 4, 2, 1, bias=False), nn.BatchNorm2d(wide), f.LeakyReLU(0.2)]
    up += [nn.ConvTranspose2d(filters, 3, 4, 2, 1, bias=False), nn.Tanh()]
    down += [nn.Conv2d(widths[0], 1, 4, 1, 0, bias=False), nn.Flatten()]
    return [nn.Sequential(*up), nn.Sequential(*down)]


def noise_and_images(generator: np.random.Generator, batch: int) -> Arrays:
    noise = generator.standard_normal((batch, 100, 1, 1), dtype=np.float32)
    return noise, images(64)(generator, batch), np.ones((batch, 1), np.float32), np.zeros((batch, 1), np.float32)


def compete(trained: Any, noise: Any, real: Any, ones: Any, zeros: Any) -> Any:
    made = trained.apply(noise)
    judged_real, judged_made = trained.apply(real, 1), trained.apply(f.detach(made), 1)
    judgement = f.binary_cross_entropy_with_logits(judged_real, ones)
    trained.minimize(judgement + f.binary_cross_entropy_with_logits(judged_made, zeros), 1)
    with trained.frozen(1):
        loss = f.binary_cross_entropy_with_logits(trained.apply(made, 1), ones)
        trained.minimize(loss)
    return loss


# --- super-resolution of large images (EDSR's parts: Lim et al. 2017) ------------------------------------------------


def superresolution(channels: int = 32, blocks: int = 3) -> list[Any]:
    """A network that doubles height and width."""

    def block() -> Any:
        return Residual(
            nn.Conv2d(channels, channels, 3, padding=1), f.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)
        )

    body = Residual(*(block() for _ in range(blocks)), nn.Conv2d(channels, channels, 3, padding=1))
    up = [nn.Conv2d(channels, 12, 3, padding=1), nn.PixelShuffle(2)]
    return [nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), body, *up)]


def small_and_large(generator: np.random.Generator, batch: int) -> Arrays:
    return images((360, 640))(generator, batch), images((720, 1280))(generator, batch)


def sharpen(trained: Any, x: Any, target: Any) -> Any:
    loss = f.l1_loss(trained.apply(x), target)
    trained.minimize(loss)
    return loss


# --- WaveNet (van den Oord et al. 2016) ------------------------------------------------------------------------------


class GatedLayer(nn.Module):
    """A gated convolution over `dilation` steps; returns the next layer's input (not the last) and the skip output."""

    def __init__(self, channels: int, skip: int, dilation: int, is_last: bool) -> None:
        super().__init__()
        self.dilation, self.channels = dilation, channels
        self.conv = nn.Conv1d(channels, 2 * channels, 2, dilation=dilation)
        self.residual = None if is_last else nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, skip, 1)
        self.tanh, self.sigmoid = nn.Tanh(), nn.Sigmoid()

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        y = self.tanh(y[:, : self.channels]) * self.sigmoid(y[:, self.channels :])
        return x if self.residual is None else x[:, :, self.dilation :] + self.residual(y), self.skip(y)


WAVE_STEPS = 4096


class WaveNet(nn.Module):
    """Two stacks of ten dilated layers over 256 classes; a prediction for each of the last 2,048 steps."""

    def __init__(self, channels: int = 64, skip: int = 128, classes: int = 256) -> None:
        super().__init__()
        self.tokens = nn.Embedding(classes, channels)
        self.layers = nn.ModuleList(
            [GatedLayer(channels, skip, 1 << number % 10, number == 19) for number in range(20)]
        )
        self.head = nn.Sequential(f.ReLU(), nn.Conv1d(skip, skip, 1), f.ReLU(), nn.Conv1d(skip, classes, 1))

    def forward(self, tokens: Any) -> Any:
        x, total = f.permute(self.tokens(tokens), (0, 2, 1)), None
        for layer in self.layers:
            x, skip = layer(x)
            skip = skip[:, :, skip.shape[2] - WAVE_STEPS // 2 :]
            total = skip if total is None else total + skip
        return self.head(total)


def waves(generator: np.random.Generator, batch: int) -> Arrays:
    return generator.integers(0, 256, (batch, WAVE_STEPS)), generator.integers(0, 256, (batch, WAVE_STEPS // 2))


# --- a decoder of 30 million parameters ------------------------------------------------------------------------------


class CausalAttention(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x: Any) -> Any:
        batch, steps, channels = x.shape
        x = f.reshape(self.qkv(x), (batch, steps, 3, self.heads, channels // self.heads))
        x = f.permute(x, (2, 0, 3, 1, 4))
        x = f.functional.scaled_dot_product_attention(x[0], x[1], x[2], is_causal=True)
        return self.out(f.reshape(f.permute(x, (0, 2, 1, 3)), (batch, steps, channels)))


class Decoder(nn.Module):
    def __init__(self, width: int = 512, blocks: int = 8, vocabulary: int = 4096, steps: int = 256) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(steps, width)
        self.order = np.arange(steps)
        self.blocks = nn.Sequential()
        for _ in range(blocks):
            self.blocks.append(Residual(nn.LayerNorm(width), CausalAttention(width, width // 64)))
            self.blocks.append(Residual(nn.LayerNorm(width), *feed_forward(width)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.places(f.constant(self.order))
        return self.head(self.norm(self.blocks(x)))


def text(generator: np.random.Generator, batch: int) -> Arrays:
    return generator.integers(0, 4096, (batch, 256)), generator.integers(0, 4096, (batch * 256,))


def predict_next(trained: Any, tokens: Any, following: Any) -> Any:
    loss = f.cross_entropy(f.reshape(trained.apply(tokens), (-1, 4096)), following)
    trained.minimize(loss)
    return loss


NETWORKS = {
    "densenet": Network(densenet, classified(224), classify, 8),
    "efficientnet": Network(efficientnet, classified(224), classify, 8),
    "convnext": Network(convnext, classified(224), classify, 4, "adamw"),
    "swin": Network(swin, classified(224), classify, 4, "adamw"),
    "detector": Network(lambda: [Detector()], detector_inputs, detect, 4),
    "hourglass": Network(lambda: [StackedHourglass()], heatmaps, locate, 2),
    "dcgan": Network(dcgan, noise_and_images, compete, 64, "adam"),
    "superresolution": Network(superresolution, small_and_large, sharpen, 1, "adam"),
    "wavenet": Network(lambda: [WaveNet()], waves, classify, 2, "adam"),
    "decoder": Network(lambda: [Decoder()], text, predict_next, 4, "adamw"),
}
