"""Upsample, PixelShuffle and PixelUnshuffle, and the functions behind them, with torch's names, defaults and formulas.

Interpolation is one pass: each output pixel is a weighted sum of a few rows by a few columns (two by two for bilinear,
four by four for bicubic, the covered pixels for area), and its gradient has the same form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.functions.convolution import resampled
from trainer.engine.graph.primitives.resampling import Run
from trainer.engine.nn.module import Module
from trainer.engine.tensor import Tensor

Extents = int | Sequence[int]
Factors = float | Sequence[float]

MODES = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "area")
_WITH_CORNERS = ("linear", "bilinear", "bicubic")
_CUBIC = -0.75
"""Parameter a of the cubic kernel, as in torch and OpenCV (Keys 1981 recommends -0.5)."""


def interpolate(
    x: Tensor,
    size: Extents | None = None,
    scale_factor: Factors | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resamples x [N, C, L] or [N, C, H, W] to `size`, or to floor(extent · `scale_factor`).

    The result has x's floating-point dtype.

    Args:
        size: one number, or one for each spatial axis.
        scale_factor: one number, or one for each spatial axis; output pixels have a spacing of exactly 1 /
            `scale_factor` input pixels.
        mode: nearest (floor of the scaled coordinate), nearest-exact (the nearest center), linear (for [N, C, L]),
            bilinear or bicubic (for [N, C, H, W]), or area: the mean of the pixels that an output pixel overlaps.
        align_corners: for linear, bilinear and bicubic: the centers of the corner pixels coincide, instead of the
            images' edges.
        antialias: for bilinear and bicubic: when the image shrinks, the weights are stretched over all pixels that an
            output pixel covers, as in Pillow (bicubic then uses a = -0.5).

    Raises:
        TrainerError: unknown mode, both or none of `size` and `scale_factor`, an empty result, or `antialias` with
            another mode or with `align_corners`.

    >>> nn.functional.interpolate(engine.ones((1, 3, 8, 8)), size=4, mode="bilinear", antialias=True).shape
    (1, 3, 4, 4)
    """
    spatial = x.shape[2:]
    ranks = {"linear": (3,), "bilinear": (4,), "bicubic": (4,)}.get(mode, (3, 4))
    if mode not in MODES or x.ndim not in ranks:
        expected = (
            "nearest, nearest-exact and area of [N, C, L] or [N, C, H, W], linear of [N, C, L], bilinear and bicubic "
            "of [N, C, H, W]"
        )
        raise TrainerError("interpolate: unknown mode", found=f"{mode!r} of shape {x.shape}", expected=expected)
    if align_corners is not None and mode not in _WITH_CORNERS:
        raise TrainerError(f"align_corners is only for {', '.join(_WITH_CORNERS)}", found=f"mode {mode!r}")
    if antialias and (mode not in ("bilinear", "bicubic") or align_corners):
        found = f"mode {mode!r}, align_corners {align_corners}"
        raise TrainerError("antialias is only for bilinear and bicubic without align_corners", found=found)
    if (size is None) == (scale_factor is None):
        raise TrainerError(
            "interpolate takes either size or scale_factor", found=f"size {size}, scale_factor {scale_factor}"
        )
    factors = None if scale_factor is None else _each(scale_factor, len(spatial))
    if factors is not None:
        extents = [math.floor(extent * factor) for extent, factor in zip(spatial, factors, strict=True)]
    else:
        assert size is not None
        extents = [int(extent) for extent in _each(size, len(spatial))]
    if min(extents, default=1) < 1 or min(spatial, default=1) < 1:
        raise TrainerError("interpolate: the image is empty", found=f"{spatial} to {extents}")
    steps = [1 / factor for factor in factors] if factors else [a / b for a, b in zip(spatial, extents, strict=True)]
    bands = []
    for extent, count, step in zip(spatial, extents, steps, strict=True):
        if mode.startswith("nearest"):
            bands.append((extent, _nearest(extent, count, step, exact=mode.endswith("exact"))))
        elif mode == "area":
            bands.append((extent, area(extent, count)))
        elif antialias:
            bands.append((extent, _smoothed(extent, count, step, cubic=mode == "bicubic")))
        else:
            runs = _cubic if mode == "bicubic" else _linear
            bands.append((extent, runs(extent, count, step, bool(align_corners))))
    return resampled(x, bands)


def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """Rearranges x [..., C·r², H, W] to [..., C, H·r, W·r]: channels become r x r blocks (Shi et al. 2016).

    Accepts any dtype.

    Raises:
        TrainerError: the channels can't be split.
    """
    factor = upscale_factor
    if x.ndim < 3 or factor < 1 or x.shape[-3] % factor**2:
        expected = f"[..., C, H, W] with C divisible by {factor**2}"
        raise TrainerError("pixel_shuffle can't split the channels", found=f"shape {x.shape}", expected=expected)
    *outer, channels, height, width = x.shape
    parts = functions.reshape(x, (*outer, channels // factor**2, factor, factor, height, width))
    first = len(outer)
    order = (*range(first + 1), first + 3, first + 1, first + 4, first + 2)
    moved = functions.permute_dims(parts, order)
    return functions.reshape(moved, (*outer, channels // factor**2, height * factor, width * factor))


def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """Rearranges x [..., C, H·r, W·r] to [..., C·r², H, W], the reverse of `pixel_shuffle`; accepts any dtype.

    Raises:
        TrainerError: the extents can't be split.
    """
    factor = downscale_factor
    if x.ndim < 3 or factor < 1 or x.shape[-2] % factor or x.shape[-1] % factor:
        expected = f"[..., C, H, W] with H and W divisible by {factor}"
        raise TrainerError("pixel_unshuffle can't split the picture", found=f"shape {x.shape}", expected=expected)
    *outer, channels, height, width = x.shape
    parts = functions.reshape(x, (*outer, channels, height // factor, factor, width // factor, factor))
    first = len(outer)
    order = (*range(first + 1), first + 2, first + 4, first + 1, first + 3)
    moved = functions.permute_dims(parts, order)
    return functions.reshape(moved, (*outer, channels * factor**2, height // factor, width // factor))


class Upsample(Module):
    """Resamples x [N, C, L] or [N, C, H, W] to `size` or by `scale_factor`; see `functional.interpolate`."""

    def __init__(
        self,
        size: Extents | None = None,
        scale_factor: Factors | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> None:
        self.size, self.scale_factor = size, scale_factor
        self.mode, self.align_corners = mode, align_corners

    def forward(self, x: Tensor) -> Tensor:
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        goal = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{goal}, mode={self.mode!r}"


class PixelShuffle(Module):
    """Rearranges x [..., C·r², H, W] to [..., C, H·r, W·r], r the `upscale_factor`: `functional.pixel_shuffle`."""

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        return pixel_shuffle(x, self.upscale_factor)


class PixelUnshuffle(Module):
    """Rearranges x [..., C, H·r, W·r] to [..., C·r², H, W]; r is `downscale_factor`. See `pixel_unshuffle`."""

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        return pixel_unshuffle(x, self.downscale_factor)


def _each(value: float | Sequence[float], count: int) -> tuple[float, ...]:
    """Returns one number for each spatial axis, from one for all or one for each."""
    values = (value,) * count if isinstance(value, int | float) else tuple(value)
    if len(values) != count or not all(each > 0 for each in values):
        raise TrainerError(
            "size and scale_factor take one positive number, or one for each axis of the image",
            found=repr(value),
            expected=f"{count} positive numbers",
        )
    return values


def _nearest(extent: int, count: int, step: float, *, exact: bool) -> tuple[Run, ...]:
    """Returns the input coordinate of each output pixel, computed in float32 as in torch."""
    at = np.arange(count, dtype=np.float32) + np.float32(0.5 if exact else 0)
    places = np.minimum(np.floor(at * np.float32(step)).astype(np.int64), extent - 1)
    return tuple((int(place), (1.0,)) for place in places)


def _linear(extent: int, count: int, step: float, align_corners: bool) -> tuple[Run, ...]:
    """Returns the two neighbors of each output pixel and their weights; only one at the edges."""
    runs: list[Run] = []
    for place in range(count):
        at = max(_center(place, extent, count, step, align_corners), 0.0)
        below = min(math.floor(at), extent - 1)
        share = at - below
        single = below == extent - 1 or share == 0
        runs.append((below, (1.0,) if single else (1 - share, share)))
    return tuple(runs)


def parts_of(extent: int, count: int) -> list[tuple[int, int]]:
    """Returns start and end of each of `count` equal parts of an axis, rounded outward to pixels."""
    return [(place * extent // count, -(-(place + 1) * extent // count)) for place in range(count)]


def area(extent: int, count: int) -> tuple[Run, ...]:
    """Returns the pixels that each output pixel overlaps, with equal weights (adaptive average pooling)."""
    return tuple((first, (1 / (end - first),) * (end - first)) for first, end in parts_of(extent, count))


def _center(place: int, extent: int, count: int, step: float, align_corners: bool) -> float:
    """Returns the coordinate of an output pixel's center, in input pixels; integers are their centers."""
    if align_corners:
        return place * (extent - 1) / (count - 1) if count > 1 else 0.0
    return (place + 0.5) * step - 0.5


def _cubic(extent: int, count: int, step: float, align_corners: bool) -> tuple[Run, ...]:
    """The four neighbors of each output pixel and their weights (Keys 1981); edge pixels repeat beyond the edge."""
    runs: list[Run] = []
    for place in range(count):
        at = _center(place, extent, count, step, align_corners)
        below = math.floor(at)
        shares: dict[int, float] = {}
        for neighbor in range(below - 1, below + 3):
            inside = min(max(neighbor, 0), extent - 1)
            shares[inside] = shares.get(inside, 0.0) + _keys(abs(at - neighbor))
        runs.append((min(shares), tuple(shares[inside] for inside in sorted(shares))))
    return tuple(runs)


def _smoothed(extent: int, count: int, step: float, *, cubic: bool) -> tuple[Run, ...]:
    """All neighbors within the support of a filter as wide as an output pixel, with weights that sum to 1."""
    scale = max(step, 1.0)
    span = scale * (2 if cubic else 1)
    runs: list[Run] = []
    for place in range(count):
        center = (place + 0.5) * step
        first, end = max(int(center - span + 0.5), 0), min(int(center + span + 0.5), extent)
        distances = [abs(neighbor + 0.5 - center) / scale for neighbor in range(first, end)]
        weights = [_keys(each, -0.5) if cubic else max(0.0, 1 - each) for each in distances]
        total = sum(weights)
        runs.append((first, tuple(weight / total for weight in weights)))
    return tuple(runs)


def _keys(distance: float, a: float = _CUBIC) -> float:
    """Returns the weight of a neighbor at a distance: a cubic, 1 at 0, and 0 at 1 and from 2 on."""
    d = distance
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0
