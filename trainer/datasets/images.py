"""Decodes image files: all color modes, EXIF rotation, damaged and too large files."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.image_warnings import warnings_name
from trainer.datasets.paths import missing_file

if TYPE_CHECKING:
    from PIL import Image

MOST_PIXELS = 178_956_970
"""Maximum number of pixels of an image; larger ones are rejected before decoding. Equal to Pillow's limit: half a
gigabyte as RGB.
"""

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
"""File extensions of images."""

UNREAD = frozenset(
    {".heic", ".heif", ".avif", ".jxl", ".jp2", ".jfif", ".svg", ".psd", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf"}
)
"""Image formats that readers don't support."""

_BROKEN = (OSError, SyntaxError, ValueError, TypeError, EOFError, IndexError, KeyError, struct.error, zlib.error)
"""Exceptions of Pillow for truncated or damaged files, depending on format and position of the damage."""

_ORIENTATION = 0x0112
_SWAPS_AXES = (5, 6, 7, 8)


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A decoded image. `size` is (height, width) of the file's image; `pixels` may be a reduced version."""

    pixels: np.ndarray
    """uint8 [H, W, C]."""
    size: tuple[int, int]


def decode(
    path: Path,
    *,
    channels: Literal[1, 3] | None = 3,
    at_least: tuple[int, int] | None = None,
    annotated_size: tuple[int, int] | None = None,
) -> Picture:
    """The image in a file as uint8.

    Palettes and CMYK become RGB, alpha is dropped, 16-bit pixels keep their upper 8 bits, and an animation is reduced
    to its first frame. An EXIF rotation is applied, unless the annotations were made without it.

    Args:
        path: the file.
        channels: 3 or 1 for every image; None: 1 for grayscale images, otherwise 3.
        at_least: minimum (height, width): a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, which is faster by that
            factor, as long as neither extent becomes smaller than this.
        annotated_size: (height, width) in the annotations; decides about EXIF rotation.

    Raises:
        TrainerError: the file is missing, not an image, truncated, damaged or too large, or its pixels have neither 8
            nor 16 bits.
    """
    image = opened(path)
    orientation = _orientation(image, path)
    swaps = orientation in _SWAPS_AXES
    if swaps and annotated_size is not None and annotated_size == (image.height, image.width):
        orientation, swaps = 1, False  # the annotation tool ignored EXIF
    size = (image.width, image.height) if swaps else (image.height, image.width)
    if at_least is not None and image.format in ("JPEG", "MPO"):
        image.draft(image.mode, at_least if swaps else (at_least[1], at_least[0]))
    load(image, path)
    pixels = _eight_bits(image, path, channels)
    return Picture(_turned(pixels, orientation), size)


def oriented_size(path: Path) -> tuple[int, int]:
    """(height, width) of an image file as in `decode`, from its header. Raises `TrainerError` as `opened` does."""
    image = opened(path)
    swaps = _orientation(image, path) in _SWAPS_AXES
    return (image.width, image.height) if swaps else (image.height, image.width)


def is_turned(path: Path) -> bool:
    """Whether EXIF states that the image in a file is rotated or flipped; False if it can't be read."""
    try:
        return _orientation(opened(path), path) != 1
    except TrainerError:
        return False


def opened(path: Path) -> Image.Image:
    """Opens a file as an image and reads only its header. Raises `TrainerError` as `decode` does."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings_name(path):
            image = Image.open(path)
    except FileNotFoundError:
        raise missing_file(path) from None
    except UnidentifiedImageError:
        raise TrainerError(
            "not an image, or damaged at its start",
            where=str(path),
            found=_beginning(path),
            expected="an image file",
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise TrainerError("the image is too large", where=str(path), found=error, hint=_TOO_LARGE) from None
    except _BROKEN as error:
        raise TrainerError("the image can't be read", where=str(path), found=error) from error
    if image.width * image.height > MOST_PIXELS:
        found = f"{image.width}x{image.height} pixels"
        expected = f"at most {MOST_PIXELS} in all"
        raise TrainerError("the image is too large", where=str(path), found=found, expected=expected, hint=_TOO_LARGE)
    return image


def load(image: Image.Image, path: Path) -> None:
    """Decodes an opened image. Raises `TrainerError` if it is truncated or damaged."""
    try:
        with warnings_name(path):
            image.load()
    except _BROKEN as error:
        message = "truncated image" if "truncated" in str(error) else "damaged image"
        raise TrainerError(message, where=str(path), found=error, hint="Download the file again.") from error


_TOO_LARGE = "A small file may decode to more than fits into memory; reduce its size, or remove it."


def _eight_bits(image: Image.Image, path: Path, channels: int | None) -> np.ndarray:
    """uint8 [H, W, C] of a loaded image."""
    if image.mode in ("F", "I") or image.mode.startswith("I;16"):
        pixels = _narrowed(np.asarray(image), path)
        return np.repeat(pixels[:, :, None], 3, axis=2) if channels == 3 else pixels[:, :, None]
    if channels is None:
        channels = 1 if image.mode in ("1", "L", "LA", "La") else 3
    mode = "RGB" if channels == 3 else "L"
    if image.mode != mode:
        with warnings_name(path):
            image = image.convert(mode)
    pixels = np.asarray(image)
    return pixels if channels == 3 else pixels[:, :, None]


def _narrowed(values: np.ndarray, path: Path) -> np.ndarray:
    """uint8 from 16-bit pixels."""
    lowest, highest = (values.min(), values.max()) if values.size else (0, 0)
    if values.dtype.kind == "f" or lowest < 0 or highest > 0xFFFF:
        raise TrainerError(
            "the image's pixels are neither 8 nor 16 bits",
            where=str(path),
            found=f"{values.dtype} from {lowest} to {highest}",
            expected="0 to 255 or 0 to 65535",
        )
    return (values.astype(np.uint32) >> 8).astype(np.uint8)


def _turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """The pixels in the orientation that EXIF states (2: mirrored, 3: upside down, 6 and 8: quarter turns, …)."""
    if orientation in _SWAPS_AXES:
        pixels = pixels.swapaxes(0, 1)
    vertical, horizontal = _MIRRORED.get(orientation, (1, 1))
    return np.ascontiguousarray(pixels[::vertical, ::horizontal])


_MIRRORED = {2: (1, -1), 3: (-1, -1), 4: (-1, 1), 6: (1, -1), 7: (-1, -1), 8: (-1, 1)}


def _orientation(image: Image.Image, path: Path) -> int:
    """The EXIF orientation, 1 to 8; 1 (unchanged) without EXIF, or if only EXIF is damaged."""
    if image.format not in _WITH_EXIF and "exif" not in image.info:
        return 1
    try:
        with warnings_name(path):
            found = image.getexif().get(_ORIENTATION, 1)
    except _BROKEN:
        return 1
    return found if isinstance(found, int) else 1


_WITH_EXIF = ("JPEG", "MPO", "WEBP", "TIFF")
"""Formats whose EXIF data Pillow finds outside of `info`."""


def _beginning(path: Path) -> str:
    with path.open("rb") as file:
        first = file.read(8)
    return f"the first bytes {first.hex(' ')}" if first else "an empty file"
