"""Steps before the network: decoding, the transforms of validation, tiles."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.gray import BRIGHT, DARK, stretched
from trainer.datasets.images import decode
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.resize import inner_frame
from trainer.datasets.transforms.transform import Transform
from trainer.datasets.windows import window_of, window_places
from trainer.learner.inference.steps import Placement, Prepared, Size, Step, built_in, line_of

if TYPE_CHECKING:
    from trainer.configs import RunConfig

_NO_DRAWS = ItemDraws(0, 0, 0)
"""The argument of transforms without random numbers."""


class Preparing(Step):
    """A step from one state of an image to the next."""

    def __call__(self, prepared: Prepared) -> Prepared:
        raise NotImplementedError


@built_in
@dataclass(frozen=True)
class Decode(Step):
    """Decodes a file or takes an RGB array: the first step.

    Args:
        channels: 3 or 1; None: 1 for grayscale files, otherwise 3.
        at_least: minimum (height, width) when a JPEG file is decoded at a lower resolution.
    """

    name: ClassVar[str] = "decode"

    channels: Literal[1, 3] | None = 3
    at_least: Size | None = None

    def __call__(self, picture: Path | np.ndarray) -> Prepared:
        """The image of a file, or of uint8 [H, W, 3].

        Raises:
            TrainerError: as `trainer.datasets.images.decode`, or the array has another shape or dtype.
        """
        if isinstance(picture, Path):
            decoded = decode(picture, channels=self.channels, at_least=self.at_least)
            return Prepared(decoded.pixels, Placement.of(decoded.size, decoded.pixels.shape[:2]))
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
            raise TrainerError(
                "not an image",
                found=f"{picture.dtype} {list(picture.shape)}",
                expected="uint8 [height, width, 3], RGB",
            )
        pixels = _gray(picture) if self.channels == 1 else picture
        return Prepared(pixels, Placement.of(pixels.shape[:2], pixels.shape[:2]))


def _gray(pixels: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 1], as when a color file is decoded with one channel."""
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).convert("L"))[:, :, None]


def _stays(transform: Any, placement: Placement, after: Size) -> Placement:
    return placement


def _resized(transform: Any, placement: Placement, after: Size) -> Placement:
    return placement.resized(after)


def _padded(transform: Any, placement: Placement, after: Size) -> Placement:
    return placement.moved(0, 0, after)


def _letterboxed(transform: Any, placement: Placement, after: Size) -> Placement:
    inner, place = inner_frame(placement.frame, transform.size)
    return placement.resized(inner).moved(*place, after)


def _cropped(transform: Any, placement: Placement, after: Size) -> Placement:
    down, right = (
        (max(before, size) - before) // 2 - (max(before, size) - size) // 2
        for before, size in zip(placement.frame, transform.size, strict=True)
    )
    return placement.moved(down, right, after)


_TRANSFORMS: Mapping[str, tuple[str, Callable[[Any, Placement, Size], Placement]]] = {
    "resize": ("resize:Resize", _resized),
    "resize_shorter_side": ("resize:ResizeShorterSide", _resized),
    "resize_to_multiple": ("resize:ResizeToMultiple", _resized),
    "letterbox": ("resize:Letterbox", _letterboxed),
    "pad": ("pad:Pad", _padded),
    "center_crop": ("crop:CenterCrop", _cropped),
    "grayscale": ("color:Grayscale", _stays),
    "normalize": ("numbers:Normalize", _stays),
}
"""The transforms without random numbers, by config name: the class, and the position of the image afterwards."""


def class_of(transform: str) -> type[Any]:
    """The class of a transform in the table."""
    module, _, name = _TRANSFORMS[transform][0].partition(":")
    kind: type[Any] = getattr(importlib.import_module(f"trainer.datasets.transforms.{module}"), name)
    return kind


_OF_TARGETS = ("one_hot",)
"""Transforms that don't change the image."""


@built_in
@dataclass(frozen=True)
class TransformPicture(Preparing):
    """A transform without random numbers, as named in configs, with its settings."""

    name: ClassVar[str] = "transform"

    transform: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.transform not in _TRANSFORMS:
            raise ValueError(f"no such transform: {self.transform[:80]}; there are: {', '.join(_TRANSFORMS)}")
        self.made()

    def made(self) -> Transform:
        """Creates the transform."""
        made: Transform = class_of(self.transform)(**self.settings)
        return made

    def __call__(self, prepared: Prepared) -> Prepared:
        transform = self.made()
        item = transform({"image": prepared.pixels, "placement": prepared.placement.affine}, _NO_DRAWS)
        pixels = item["image"]
        placed = _TRANSFORMS[self.transform][1](transform, prepared.placement, pixels.shape[:2])
        return Prepared(pixels, replace(placed, affine=item["placement"]))


@built_in
@dataclass(frozen=True)
class StretchGray(Preparing):
    """Stretches a grayscale image to the range from black to white, and inverts bright images.

    Args:
        dark: maximum percentage of pixels that become black; bright: percentage that stays below white.
    """

    name: ClassVar[str] = "stretch_gray"

    dark: float = DARK
    bright: float = BRIGHT

    def __call__(self, prepared: Prepared) -> Prepared:
        return replace(prepared, pixels=stretched(prepared.pixels, self.dark, self.bright))


@built_in
@dataclass(frozen=True)
class Tile(Preparing):
    """Cuts the image into overlapping tiles of `size` by `size`, each of which contributes all but its margins."""

    name: ClassVar[str] = "tile"

    size: int
    margin: int

    def __call__(self, prepared: Prepared) -> Prepared:
        windows = window_places(prepared.placement.frame, self.size, self.margin)
        cut = np.stack([window_of(prepared.pixels, one.top, one.left, self.size) for one in windows])
        return Prepared(cut, replace(prepared.placement, windows=windows))


def preparation(
    config: RunConfig,
    *,
    channels: Literal[1, 3] | None = 3,
    default: tuple[Step, ...] = (),
    scales: bool = True,
    largest: Size | None = None,
) -> tuple[Step, ...]:
    """The processing of a validation image by `data.reader` and `data.transforms.valid`, as steps.

    Args:
        channels: channels of the network's images, if the reader doesn't set them.
        default: the task's own steps, used if the config has no transforms.
        scales: whether the reader may decode at a lower resolution; false if the task wraps it, and for pairs.
        largest: (height, width) of the largest validation image, if a transform pads all images to it.

    Raises:
        TrainerError: a transform of validation draws random numbers, or is custom code.
    """
    data = config.data
    sections = data.transforms.of("valid")
    steps = default
    if sections is not None:
        steps = tuple(_step(section, largest) for section in sections if section.name not in _OF_TARGETS)
    reader = data.reader
    if reader is not None and hasattr(reader, "channels") and not (reader.name == "auto" and reader.channels is None):
        channels = reader.channels
    at_least = _decode_hint(steps) if data.scaled_decoding and scales else None
    return (Decode(channels, at_least), *steps)


def _step(section: Any, largest: Size | None) -> Step:
    where = "data.transforms.valid"
    if section.is_own:
        from trainer.configs.custom_class import own_subclass

        kind = own_subclass(section.name, Transform, "trainer.datasets.Transform")  # type: ignore[type-abstract]
        raise TrainerError(
            "a transform of validation is custom code", where=f"{where}: {line_of(kind)}", found=kind.__qualname__,
            expected="the transforms that come with trainer, which a model stores as data",
        )  # fmt: skip
    if section.name not in _TRANSFORMS or section.probability != 1:
        raise TrainerError(
            "a transform of validation is random, so predictions would not be reproducible", where=where,
            found=section.name, expected=", ".join((*_TRANSFORMS, *_OF_TARGETS)),
        )  # fmt: skip
    settings = {key: value for key, value in section.settings().items() if key != "probability"}
    if settings.pop("to_largest", False):
        if largest is None:
            raise TrainerError(
                "pad needs the size of the largest validation image", where=where, found="to_largest",
                expected="a task whose data come from `read_splits` and that passes `self.largest_image` on",
            )  # fmt: skip
        settings["at_least"] = largest
    return TransformPicture(section.name, settings)


def _decode_hint(steps: tuple[Step, ...]) -> Size | None:
    """The minimum size of decoded images, as in `trainer.datasets.Pipeline.decode_hint`."""
    for step in steps:
        if not isinstance(step, TransformPicture):
            return None
        transform = step.made()
        if transform.decode_hint is not None:
            return transform.decode_hint
        if transform.minds_scale:
            return None
    return None
