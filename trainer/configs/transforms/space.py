"""Transforms of where things are: sizes, windows, flips, warps."""

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
    """To a size, whatever that does to the proportions."""

    code: ClassVar[str] = "resize:Resize"

    name: Literal["resize"]


class LetterboxConfig(Sized):
    """As large as fits into a size with its proportions, in the middle of a frame."""

    code: ClassVar[str] = "resize:Letterbox"

    name: Literal["letterbox"]
    fill: int = Field(114, ge=0, le=255, description="The colour of the frame; of masks it is 255.")


class ResizeShorterSideConfig(Transforming):
    """The shorter side to a size, with the proportions kept."""

    code: ClassVar[str] = "resize:ResizeShorterSide"

    name: Literal["resize_shorter_side"]
    size: Pixels = Field(description="Pixels of the shorter side.")
    longest: Pixels | None = Field(None, description="The longer side gets no longer than this; null: as it comes.")


class ResizeToMultipleConfig(Transforming):
    """Each side to the nearest multiple."""

    code: ClassVar[str] = "resize:ResizeToMultiple"

    name: Literal["resize_to_multiple"]
    multiple: Pixels = Field(description="Of so many pixels.")


class PadConfig(Filling):
    """A border on the right and below."""

    code: ClassVar[str] = "pad:Pad"
    exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("size", "multiple"),)

    name: Literal["pad"]
    size: Size | None = Field(None, description="Height and width that come out, or one number for both.")
    multiple: Pixels | None = Field(
        None, description="Pad height and width to the next multiple of this many pixels; null: to `size`."
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
    """A window anywhere; a picture that is smaller gets a border first."""

    code: ClassVar[str] = "crop:RandomCrop"

    name: Literal["random_crop"]


class CenterCropConfig(Sized, Filling, Dropping):
    """The window in the middle; a picture that is smaller gets a border first."""

    code: ClassVar[str] = "crop:CenterCrop"

    name: Literal["center_crop"]


class RandomResizedCropConfig(Sized, Dropping):
    """A window of random area and proportions, resized (Szegedy et al. 2015)."""

    code: ClassVar[str] = "crop:RandomResizedCrop"

    name: Literal["random_resized_crop"]
    scale: PositiveShares = Field((0.08, 1.0), description="Least and largest share of the picture's area.")
    ratio: Positives = Field((3 / 4, 4 / 3), description="Least and largest width over height.")


class RandomScaledCropConfig(Sized, Filling, Dropping):
    """The picture enlarged or reduced by a random factor, and of that a window anywhere."""

    code: ClassVar[str] = "crop:RandomScaledCrop"

    name: Literal["random_scaled_crop"]
    scale: Positives = Field((0.5, 2.0), description="Least and largest factor, whatever the picture's size.")


class RandomIoUCropConfig(Dropping):
    """A window that overlaps some box by a drawn IoU (Liu et al. 2016, the sampling of SSD)."""

    code: ClassVar[str] = "crop:RandomIoUCrop"

    name: Literal["random_iou_crop"]
    scale: PositiveShares = Field((0.3, 1.0), description="Least and largest share of the width, and of the height.")
    ratio: Positives = Field((0.5, 2.0), description="Least and largest width over height.")
    overlaps: tuple[Share, ...] = Field(
        (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0), min_length=1, description="Least IoUs to draw from; 1: the whole picture."
    )
    tries: int = Field(40, gt=0, description="Windows to try before the picture stays as it is.")


class Flipping(Transforming):
    probability: float = Field(0.5, ge=0, le=1, description="How likely it is to be applied to an item.")
    keypoint_pairs: tuple[tuple[Place, Place], ...] = Field(
        (), description="Numbers of keypoints that change names: [[1, 2]] for the left and the right eye."
    )


class HorizontalFlipConfig(Flipping):
    """Left becomes right."""

    code: ClassVar[str] = "flip:HorizontalFlip"

    name: Literal["horizontal_flip"]


class VerticalFlipConfig(Flipping):
    """The top becomes the bottom."""

    code: ClassVar[str] = "flip:VerticalFlip"

    name: Literal["vertical_flip"]


class QuarterTurnConfig(Transforming):
    """Turned by 0, 90, 180 or 270 degrees, each as likely."""

    code: ClassVar[str] = "flip:QuarterTurn"

    name: Literal["quarter_turn"]


class RotateConfig(Filling, Dropping):
    """Turned about the middle; the size stays."""

    code: ClassVar[str] = "warp:Rotate"

    name: Literal["rotate"]
    degrees: float = Field(ge=0, le=180, description="The most either way.")


class AffineConfig(Filling, Dropping):
    """Scaled, sheared, turned and shifted, about the middle."""

    code: ClassVar[str] = "warp:Affine"

    name: Literal["affine"]
    scale: Positives = Field((1.0, 1.0), description="Least and largest; below 1 the picture gets smaller.")
    shift: float = Field(0.0, ge=0, le=1, description="The most each way, as a share of the width and the height.")
    degrees: float = Field(0.0, ge=0, le=180, description="The most that it is turned, either way.")
    shear: float = Field(0.0, ge=0, lt=90, description="The most degrees by which upright lines lean, either way.")


class PerspectiveConfig(Filling, Dropping):
    """Each corner moves inwards."""

    code: ClassVar[str] = "warp:Perspective"

    name: Literal["perspective"]
    distortion: float = Field(0.5, ge=0, lt=1, description="The most, as a share of half of the width and the height.")
