"""Transforms of what is to be seen, mixtures of items, and the form of the numbers."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.transforms.transforming import Transforming
from trainer.configs.transforms.values import Dropping, Positive, Positives, PositiveShares, Shares, Sized, Sizes


class ColorJitterConfig(Transforming):
    """Brightness, contrast, saturation and hue, each by a random factor."""

    code: ClassVar[str] = "color:ColorJitter"

    name: Literal["color_jitter"]
    brightness: float = Field(0.0, ge=0, description="The factor is between 1 - this and 1 + this.")
    contrast: float = Field(0.0, ge=0, description="The factor is between 1 - this and 1 + this.")
    saturation: float = Field(0.0, ge=0, description="The factor is between 1 - this and 1 + this.")
    hue: float = Field(0.0, ge=0, le=0.5, description="The most, either way, as a share of the circle of colours.")


class GrayscaleConfig(Transforming):
    """The image in shades of grey."""

    code: ClassVar[str] = "color:Grayscale"

    name: Literal["grayscale"]
    channels: Literal[1, 3] | None = Field(None, description="How many channels come out; null: as many as went in.")


class GaussianBlurConfig(Transforming):
    """The image blurred."""

    code: ClassVar[str] = "noise:GaussianBlur"

    name: Literal["gaussian_blur"]
    sigma: Sizes = Field((0.1, 2.0), description="Least and largest standard deviation, in pixels.")


class GaussianNoiseConfig(Transforming):
    """Noise on every number of the image."""

    code: ClassVar[str] = "noise:GaussianNoise"

    name: Literal["gaussian_noise"]
    sigma: Shares = Field((0.0, 0.05), description="Least and largest standard deviation, as a share of white.")


class CutoutConfig(Transforming):
    """Rectangles of the image in one colour (DeVries and Taylor 2017)."""

    code: ClassVar[str] = "noise:Cutout"

    name: Literal["cutout"]
    count: int = Field(1, gt=0, description="How many.")
    scale: PositiveShares = Field((0.02, 0.33), description="Least and largest share of the picture's area, of each.")
    ratio: Positives = Field((0.3, 3.3), description="Least and largest width over height.")
    fill: int = Field(0, ge=0, le=255, description="The colour.")


class MosaicConfig(Sized, Dropping):
    """The item and three others around a point (Bochkovskiy et al. 2020)."""

    code: ClassVar[str] = "mosaic:Mosaic"

    name: Literal["mosaic"]
    middle: Shares = Field((0.25, 0.75), description="Where the point may lie, as shares of width and height.")


class MixupConfig(Transforming):
    """Image and soft labels blended with another item's; the objects of both (Zhang et al. 2018)."""

    code: ClassVar[str] = "mixing:Mixup"

    name: Literal["mixup"]
    alpha: float = Field(0.2, gt=0, description="The share is drawn from Beta(alpha, alpha).")


class CutMixConfig(Dropping):
    """A rectangle of another item in its place, soft labels by area (Yun et al. 2019)."""

    code: ClassVar[str] = "mixing:CutMix"

    name: Literal["cutmix"]
    alpha: float = Field(1.0, gt=0, description="The rectangle's share of the area is drawn from Beta(alpha, alpha).")


class CopyPasteConfig(Dropping):
    """Objects of another item cut out along their masks and pasted over this one (Ghiasi et al. 2021)."""

    code: ClassVar[str] = "copy_paste:CopyPaste"

    name: Literal["copy_paste"]
    share: float = Field(0.5, gt=0, le=1, description="How likely each object of the other is pasted.")
    most: int = Field(20, gt=0, description="No more than so many.")


class NormalizeConfig(Transforming):
    """The image as float32: from 0 to 1, less a mean, divided by a deviation. Cheaper on the device."""

    code: ClassVar[str] = "numbers:Normalize"

    name: Literal["normalize"]
    mean: tuple[float, ...] = Field(
        (0.485, 0.456, 0.406), min_length=1, max_length=3, description="One number, or one for each channel."
    )
    std: tuple[Positive, ...] = Field(
        (0.229, 0.224, 0.225), min_length=1, max_length=3, description="One number, or one for each channel."
    )


class OneHotConfig(Transforming):
    """Soft labels `labels_hot` from `label`; mixup, cutmix and mosaic need them."""

    code: ClassVar[str] = "numbers:OneHot"

    name: Literal["one_hot"]
    classes: int | None = Field(None, gt=0, description="How many; null: as many as the data set names.")
    smoothing: float = Field(0.0, ge=0, le=1, description="Share that is given to all classes alike.")
