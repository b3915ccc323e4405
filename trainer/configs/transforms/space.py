"""Transforms of geometry: sizes, crops, flips, warps."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.transforms.transforming import Transforming
from trainer.configs.transforms.values import (
    Dropping,
    Filling,
    Pixels,
    Place,
    Positives,
    PositiveShares,
    Share,
    Size,
    Sized,
)


class ResizeConfig(Sized):
    """Resizes the image and ignores its aspect ratio."""

    code: ClassVar[str] = "resize:Resize"

    name: Literal["resize"]


class LetterboxConfig(Sized):
    """Resizes the image to fit into a size, keeps its aspect ratio, and pads it evenly on both sides."""

    code: ClassVar[str] = "resize:Letterbox"

    name: Literal["letterbox"]
    fill: int = Field(114, ge=0, le=255, description="Gray value of the padding, 0 to 255; masks are padded with 255.")


class ResizeShorterSideConfig(Transforming):
    """Resizes the shorter side and keeps the aspect ratio."""

    code: ClassVar[str] = "resize:ResizeShorterSide"

    name: Literal["resize_shorter_side"]
    size: Pixels = Field(description="Length of the shorter side in pixels.")
    longest: Pixels | None = Field(
        None,
        description="Maximum length of the longer side in pixels; a longer side reduces the scale. null: no maximum.",
    )


class ResizeToMultipleConfig(Transforming):
    """Resizes each side to the nearest multiple."""

    code: ClassVar[str] = "resize:ResizeToMultiple"

    name: Literal["resize_to_multiple"]
    multiple: Pixels = Field(description="Resize height and width to the nearest multiple of this many pixels.")


class PadConfig(Filling):
    """Pads the image on the right and at the bottom."""

    code: ClassVar[str] = "pad:Pad"
    exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("size", "multiple"),)

    name: Literal["pad"]
    size: Size | None = Field(
        None, description="Height and width of the result in pixels, or one number for both; null: `multiple` is used."
    )
    multiple: Pixels | None = Field(
        None, description="Pad height and width to the next multiple of this many pixels; null: `size` is used."
    )
    to_largest: bool = Field(
        False,
        description="With `multiple`: pad every image to the size of the split's largest image, rounded up, before all "
        "other transforms; false: each image to its own next multiple.",
    )
    at_least: Size | None = Field(
        None,
        description="With `multiple`: minimum height and width of the result, or one number for both; larger images "
        "get their next multiple. null: no minimum.",
    )


class RandomCropConfig(Sized, Filling, Dropping):
    """Crops the image at a random position; smaller images are padded first."""

    code: ClassVar[str] = "crop:RandomCrop"

    name: Literal["random_crop"]


class CenterCropConfig(Sized, Filling, Dropping):
    """Crops the center of the image; smaller images are padded first."""

    code: ClassVar[str] = "crop:CenterCrop"

    name: Literal["center_crop"]


class RandomResizedCropConfig(Sized, Dropping):
    """Crops a random area and aspect ratio, and resizes it (Szegedy et al. 2015)."""

    code: ClassVar[str] = "crop:RandomResizedCrop"

    name: Literal["random_resized_crop"]
    scale: PositiveShares = Field(
        (0.08, 1.0), description="Minimum and maximum area of the crop, as a fraction of the image area, above 0 to 1."
    )
    ratio: Positives = Field(
        (3 / 4, 4 / 3), description="Minimum and maximum aspect ratio (width divided by height) of the crop."
    )


class RandomScaledCropConfig(Sized, Filling, Dropping):
    """Scales the image by a random factor, then crops it at a random position."""

    code: ClassVar[str] = "crop:RandomScaledCrop"

    name: Literal["random_scaled_crop"]
    scale: Positives = Field(
        (0.5, 2.0), description="Minimum and maximum scale factor, relative to the original size; 1: unchanged."
    )


class RandomIoUCropConfig(Dropping):
    """Crops around objects so that some box has a random minimum IoU with the crop (Liu et al. 2016, SSD sampling)."""

    code: ClassVar[str] = "crop:RandomIoUCrop"

    name: Literal["random_iou_crop"]
    scale: PositiveShares = Field(
        (0.3, 1.0),
        description="Minimum and maximum width and height of the crop, as fractions of the image, above 0 to 1.",
    )
    ratio: Positives = Field(
        (0.5, 2.0), description="Minimum and maximum aspect ratio (width divided by height) of the crop."
    )
    overlaps: tuple[Share, ...] = Field(
        (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0),
        min_length=1,
        description="Minimum IoUs to draw from, 0 to 1; 1: the whole image.",
    )
    tries: int = Field(40, gt=0, description="Number of attempts to find a crop before the image is left unchanged.")


class Flipping(Transforming):
    probability: float = Field(
        0.5, ge=0, le=1, description="Probability that the transform is applied to an item, 0 to 1."
    )
    keypoint_pairs: tuple[tuple[Place, Place], ...] = Field(
        (),
        description="Pairs of keypoint indices, from 0, that a flip exchanges, such as [[1, 2]] for left and "
        "right eye.",
    )


class HorizontalFlipConfig(Flipping):
    """Flips the image left to right."""

    code: ClassVar[str] = "flip:HorizontalFlip"

    name: Literal["horizontal_flip"]


class VerticalFlipConfig(Flipping):
    """Flips the image top to bottom."""

    code: ClassVar[str] = "flip:VerticalFlip"

    name: Literal["vertical_flip"]


class QuarterTurnConfig(Transforming):
    """Rotates the image by 0, 90, 180 or 270 degrees with equal probability."""

    code: ClassVar[str] = "flip:QuarterTurn"

    name: Literal["quarter_turn"]


class RotateConfig(Filling, Dropping):
    """Rotates the image around its center and keeps its size."""

    code: ClassVar[str] = "warp:Rotate"

    name: Literal["rotate"]
    degrees: float = Field(ge=0, le=180, description="Maximum rotation in degrees, in either direction, 0 to 180.")


class AffineConfig(Filling, Dropping):
    """Scales, shears, rotates and shifts the image around its center."""

    code: ClassVar[str] = "warp:Affine"

    name: Literal["affine"]
    scale: Positives = Field(
        (1.0, 1.0), description="Minimum and maximum scale factor; below 1 the image gets smaller, 1: unchanged."
    )
    shift: float = Field(
        0.0, ge=0, le=1, description="Maximum shift in either direction, as a fraction of width and height, 0 to 1."
    )
    degrees: float = Field(0.0, ge=0, le=180, description="Maximum rotation in degrees, in either direction, 0 to 180.")
    shear: float = Field(
        0.0, ge=0, lt=90, description="Maximum horizontal shear in degrees, in either direction, 0 to below 90."
    )


class PerspectiveConfig(Filling, Dropping):
    """Moves each corner of the image inwards (random perspective)."""

    code: ClassVar[str] = "warp:Perspective"

    name: Literal["perspective"]
    distortion: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="Maximum movement of each corner, as a fraction of half the width and height, 0 to below 1.",
    )
