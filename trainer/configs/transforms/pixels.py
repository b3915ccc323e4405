"""Transforms of pixel values, mixing transforms, and normalization."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.transforms.transforming import Transforming
from trainer.configs.transforms.values import Dropping, Positive, Positives, PositiveShares, Shares, Sized, Sizes


class ColorJitterConfig(Transforming):
    """Changes brightness, contrast, saturation and hue, each by a random amount."""

    code: ClassVar[str] = "color:ColorJitter"

    name: Literal["color_jitter"]
    brightness: float = Field(
        0.0,
        ge=0,
        description="Maximum change of the brightness factor: it is drawn from 1 - this to 1 + this; 0: unchanged.",
    )
    contrast: float = Field(
        0.0,
        ge=0,
        description="Maximum change of the contrast factor: it is drawn from 1 - this to 1 + this; 0: unchanged.",
    )
    saturation: float = Field(
        0.0,
        ge=0,
        description="Maximum change of the saturation factor: it is drawn from 1 - this to 1 + this; 0: unchanged.",
    )
    hue: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="Maximum hue shift in either direction, as a fraction of the color circle, 0 to 0.5; 0: unchanged.",
    )


class GrayscaleConfig(Transforming):
    """Converts the image to grayscale."""

    code: ClassVar[str] = "color:Grayscale"

    name: Literal["grayscale"]
    channels: Literal[1, 3] | None = Field(
        None, description="Number of channels of the result, 1 or 3; null: as many as the image has."
    )


class GaussianBlurConfig(Transforming):
    """Blurs the image with a Gaussian filter."""

    code: ClassVar[str] = "noise:GaussianBlur"

    name: Literal["gaussian_blur"]
    sigma: Sizes = Field((0.1, 2.0), description="Minimum and maximum standard deviation of the filter, in pixels.")


class GaussianNoiseConfig(Transforming):
    """Adds Gaussian noise to every pixel value."""

    code: ClassVar[str] = "noise:GaussianNoise"

    name: Literal["gaussian_noise"]
    sigma: Shares = Field(
        (0.0, 0.05),
        description="Minimum and maximum standard deviation of the noise, as a fraction of the value of white, 0 to 1.",
    )


class CutoutConfig(Transforming):
    """Covers random rectangles with one color (DeVries and Taylor 2017)."""

    code: ClassVar[str] = "noise:Cutout"

    name: Literal["cutout"]
    count: int = Field(1, gt=0, description="Number of rectangles per image.")
    scale: PositiveShares = Field(
        (0.02, 0.33),
        description="Minimum and maximum area of each rectangle, as a fraction of the image area, above 0 to 1.",
    )
    ratio: Positives = Field(
        (0.3, 3.3), description="Minimum and maximum aspect ratio (width divided by height) of each rectangle."
    )
    fill: int = Field(0, ge=0, le=255, description="Gray value of the rectangles, 0 to 255.")


class MosaicConfig(Sized, Dropping):
    """Combines the item and three others around a common point (Bochkovskiy et al. 2020)."""

    code: ClassVar[str] = "mosaic:Mosaic"

    name: Literal["mosaic"]
    middle: Shares = Field(
        (0.25, 0.75),
        description="Range of the point where the four images meet, as fractions of width and height, 0 to 1.",
    )


class MixupConfig(Transforming):
    """Blends the image and soft labels with those of another item and keeps the objects of both (Zhang et al. 2018)."""

    code: ClassVar[str] = "mixing:Mixup"

    name: Literal["mixup"]
    alpha: float = Field(
        0.2,
        gt=0,
        description="Parameter of the distribution Beta(alpha, alpha) of the blending weight; larger: closer to half "
        "and half.",
    )


class CutMixConfig(Dropping):
    """Pastes a rectangle of another item and mixes soft labels by area (Yun et al. 2019)."""

    code: ClassVar[str] = "mixing:CutMix"

    name: Literal["cutmix"]
    alpha: float = Field(
        1.0,
        gt=0,
        description="Parameter of the distribution Beta(alpha, alpha) of the rectangle's fraction of the area; 1: "
        "uniform.",
    )


class CopyPasteConfig(Dropping):
    """Cuts objects of another item out along their masks and pastes them into this one (Ghiasi et al. 2021)."""

    code: ClassVar[str] = "copy_paste:CopyPaste"

    name: Literal["copy_paste"]
    share: float = Field(
        0.5, gt=0, le=1, description="Probability that an object of the other item is pasted, above 0 to 1."
    )
    max_objects: int = Field(20, gt=0, description="Maximum number of pasted objects.")


class NormalizeConfig(Transforming):
    """Converts the image to float32 from 0 to 1, then subtracts the mean and divides by the standard deviation. Costs
    less in the task, on the device.
    """

    code: ClassVar[str] = "numbers:Normalize"

    name: Literal["normalize"]
    mean: tuple[float, ...] = Field(
        (0.485, 0.456, 0.406),
        min_length=1,
        max_length=3,
        description="Mean to subtract, of values from 0 to 1: one number, or one per channel.",
    )
    std: tuple[Positive, ...] = Field(
        (0.229, 0.224, 0.225),
        min_length=1,
        max_length=3,
        description="Standard deviation to divide by, of values from 0 to 1: one number, or one per channel.",
    )


class OneHotConfig(Transforming):
    """Converts `label` to soft labels `labels_hot`, which mixup, cutmix and mosaic need."""

    code: ClassVar[str] = "numbers:OneHot"

    name: Literal["one_hot"]
    classes: int | None = Field(
        None, gt=0, description="Number of classes; null: the number of classes of the data set."
    )
    smoothing: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Label smoothing: fraction of the label that is spread evenly over all classes, 0 to 1; 0: none.",
    )
