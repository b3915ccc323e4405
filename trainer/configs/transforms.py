"""`data.transforms:` what happens to items on their way, by split. A further one is a class in `datasets/transforms`
and its section here, which says in `code` where that is; no other place knows of it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from trainer.configs.own import OWN_TAG, PATTERN, names_own_class, which
from trainer.configs.section import Section


def _increasing(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError(f"expected the smaller number first, found {bounds[0]:g} before {bounds[1]:g}")
    return bounds


_Pixels = Annotated[int, Field(gt=0, le=65536)]
_Positive = Annotated[float, Field(gt=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_PositiveShare = Annotated[float, Field(gt=0, le=1)]
_NotNegative = Annotated[float, Field(ge=0)]
_Shares = Annotated[tuple[_Share, _Share], AfterValidator(_increasing)]
_PositiveShares = Annotated[tuple[_PositiveShare, _PositiveShare], AfterValidator(_increasing)]
_Positives = Annotated[tuple[_Positive, _Positive], AfterValidator(_increasing)]
_Sizes = Annotated[tuple[_NotNegative, _NotNegative], AfterValidator(_increasing)]
_Place = Annotated[int, Field(ge=0)]


def _both(size: Any) -> Any:
    if isinstance(size, int) and not isinstance(size, bool):
        return size, size
    return tuple(size) if isinstance(size, list) else size


_PIXELS = {"type": "integer", "exclusiveMinimum": 0, "maximum": 65536}
_Size = Annotated[
    tuple[_Pixels, _Pixels],
    BeforeValidator(_both),
    WithJsonSchema({"anyOf": [_PIXELS, {"type": "array", "items": _PIXELS, "minItems": 2, "maxItems": 2}]}),
]


class Transforming(Section):
    """What every transform has."""

    code: ClassVar[str] = ""
    """Where the transform is: file:Class in datasets/transforms."""
    is_own: ClassVar[bool] = False

    name: str
    probability: float = Field(1.0, ge=0, le=1, description="How likely it is to be applied to an item.")

    def settings(self) -> dict[str, Any]:
        """What the transform's class is made with."""
        return {key: getattr(self, key) for key in type(self).model_fields if key != "name"}


class _Sized(Transforming):
    size: _Size = Field(description="Height and width in pixels, or one number for both.")


class _Filling(Transforming):
    fill: int = Field(0, ge=0, le=255, description="The colour of what comes in from outside; of masks it is 255.")


class _Dropping(Transforming):
    min_visible: float = Field(
        0.1, ge=0, le=1, description="Objects of which less than this share of the box is left are dropped."
    )


class ResizeConfig(_Sized):
    """To a size, whatever that does to the proportions."""

    code: ClassVar[str] = "resize:Resize"

    name: Literal["resize"]


class LetterboxConfig(_Sized):
    """As large as fits into a size with its proportions, in the middle of a frame."""

    code: ClassVar[str] = "resize:Letterbox"

    name: Literal["letterbox"]
    fill: int = Field(114, ge=0, le=255, description="The colour of the frame; of masks it is 255.")


class ResizeShorterSideConfig(Transforming):
    """The shorter side to a size, with the proportions kept."""

    code: ClassVar[str] = "resize:ResizeShorterSide"

    name: Literal["resize_shorter_side"]
    size: _Pixels = Field(description="Pixels of the shorter side.")
    longest: _Pixels | None = Field(None, description="The longer side gets no longer than this; null: as it comes.")


class ResizeToMultipleConfig(Transforming):
    """Each side to the nearest multiple."""

    code: ClassVar[str] = "resize:ResizeToMultiple"

    name: Literal["resize_to_multiple"]
    multiple: _Pixels = Field(description="Of so many pixels.")


class PadConfig(_Filling):
    """A border on the right and below."""

    code: ClassVar[str] = "pad:Pad"
    exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("size", "multiple"),)

    name: Literal["pad"]
    size: _Size | None = Field(None, description="Height and width that come out, or one number for both.")
    multiple: _Pixels | None = Field(None, description="Each side to the next multiple of so many pixels.")


class RandomCropConfig(_Sized, _Filling, _Dropping):
    """A window anywhere; a picture that is smaller gets a border first."""

    code: ClassVar[str] = "crop:RandomCrop"

    name: Literal["random_crop"]


class CenterCropConfig(_Sized, _Filling, _Dropping):
    """The window in the middle; a picture that is smaller gets a border first."""

    code: ClassVar[str] = "crop:CenterCrop"

    name: Literal["center_crop"]


class RandomResizedCropConfig(_Sized, _Dropping):
    """A window of random area and proportions, resized (Szegedy et al. 2015)."""

    code: ClassVar[str] = "crop:RandomResizedCrop"

    name: Literal["random_resized_crop"]
    scale: _PositiveShares = Field((0.08, 1.0), description="Least and largest share of the picture's area.")
    ratio: _Positives = Field((3 / 4, 4 / 3), description="Least and largest width over height.")


class RandomIoUCropConfig(_Dropping):
    """A window that overlaps some box by a drawn IoU (Liu et al. 2016, the sampling of SSD)."""

    code: ClassVar[str] = "crop:RandomIoUCrop"

    name: Literal["random_iou_crop"]
    scale: _PositiveShares = Field((0.3, 1.0), description="Least and largest share of the width, and of the height.")
    ratio: _Positives = Field((0.5, 2.0), description="Least and largest width over height.")
    overlaps: tuple[_Share, ...] = Field(
        (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0), min_length=1, description="Least IoUs to draw from; 1: the whole picture."
    )
    tries: int = Field(40, gt=0, description="Windows to try before the picture stays as it is.")


class _Flipping(Transforming):
    probability: float = Field(0.5, ge=0, le=1, description="How likely it is to be applied to an item.")
    keypoint_pairs: tuple[tuple[_Place, _Place], ...] = Field(
        (), description="Numbers of keypoints that change names: [[1, 2]] for the left and the right eye."
    )


class HorizontalFlipConfig(_Flipping):
    """Left becomes right."""

    code: ClassVar[str] = "flip:HorizontalFlip"

    name: Literal["horizontal_flip"]


class VerticalFlipConfig(_Flipping):
    """The top becomes the bottom."""

    code: ClassVar[str] = "flip:VerticalFlip"

    name: Literal["vertical_flip"]


class RotateConfig(_Filling, _Dropping):
    """Turned about the middle; the size stays."""

    code: ClassVar[str] = "warp:Rotate"

    name: Literal["rotate"]
    degrees: float = Field(ge=0, le=180, description="The most either way.")


class AffineConfig(_Filling, _Dropping):
    """Scaled, sheared, turned and shifted, about the middle."""

    code: ClassVar[str] = "warp:Affine"

    name: Literal["affine"]
    scale: _Positives = Field((1.0, 1.0), description="Least and largest; below 1 the picture gets smaller.")
    shift: float = Field(0.0, ge=0, le=1, description="The most each way, as a share of the width and the height.")
    degrees: float = Field(0.0, ge=0, le=180, description="The most that it is turned, either way.")
    shear: float = Field(0.0, ge=0, lt=90, description="The most degrees by which upright lines lean, either way.")


class PerspectiveConfig(_Filling, _Dropping):
    """Each corner moves inwards."""

    code: ClassVar[str] = "warp:Perspective"

    name: Literal["perspective"]
    distortion: float = Field(0.5, ge=0, lt=1, description="The most, as a share of half of the width and the height.")


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
    sigma: _Sizes = Field((0.1, 2.0), description="Least and largest standard deviation, in pixels.")


class GaussianNoiseConfig(Transforming):
    """Noise on every number of the image."""

    code: ClassVar[str] = "noise:GaussianNoise"

    name: Literal["gaussian_noise"]
    sigma: _Shares = Field((0.0, 0.05), description="Least and largest standard deviation, as a share of white.")


class CutoutConfig(Transforming):
    """Rectangles of the image in one colour (DeVries and Taylor 2017)."""

    code: ClassVar[str] = "noise:Cutout"

    name: Literal["cutout"]
    count: int = Field(1, gt=0, description="How many.")
    scale: _PositiveShares = Field((0.02, 0.33), description="Least and largest share of the picture's area, of each.")
    ratio: _Positives = Field((0.3, 3.3), description="Least and largest width over height.")
    fill: int = Field(0, ge=0, le=255, description="The colour.")


class MosaicConfig(_Sized, _Dropping):
    """The item and three others around a point (Bochkovskiy et al. 2020)."""

    code: ClassVar[str] = "mosaic:Mosaic"

    name: Literal["mosaic"]
    middle: _Shares = Field((0.25, 0.75), description="Where the point may lie, as shares of width and height.")


class MixupConfig(Transforming):
    """Image and soft labels blended with another item's; the objects of both (Zhang et al. 2018)."""

    code: ClassVar[str] = "mixing:Mixup"

    name: Literal["mixup"]
    alpha: float = Field(0.2, gt=0, description="The share is drawn from Beta(alpha, alpha).")


class CutMixConfig(_Dropping):
    """A rectangle of another item in its place, soft labels by area (Yun et al. 2019)."""

    code: ClassVar[str] = "mixing:CutMix"

    name: Literal["cutmix"]
    alpha: float = Field(1.0, gt=0, description="The rectangle's share of the area is drawn from Beta(alpha, alpha).")


class CopyPasteConfig(_Dropping):
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
    std: tuple[_Positive, ...] = Field(
        (0.229, 0.224, 0.225), min_length=1, max_length=3, description="One number, or one for each channel."
    )


class OneHotConfig(Transforming):
    """Soft labels `labels_hot` from `label`; mixup, cutmix and mosaic need them."""

    code: ClassVar[str] = "numbers:OneHot"

    name: Literal["one_hot"]
    classes: int | None = Field(None, gt=0, description="How many; null: as many as the data set names.")
    smoothing: float = Field(0.0, ge=0, le=1, description="Share that is given to all classes alike.")


class OwnTransform(Transforming):
    """A class derived from trainer.datasets.Transform, named as ./file.py:Class."""

    is_own: ClassVar[bool] = True

    name: str = Field(pattern=PATTERN, description="The class, as ./file.py:Class.")
    options: dict[str, Any] = Field(default_factory=dict, description="What it is made with.")

    @staticmethod
    def is_meant_by(value: dict[str, Any]) -> bool:
        """Whether a mapping names a class of the user's own."""
        return names_own_class(value.get("name"))

    def settings(self) -> dict[str, Any]:
        return self.options


TransformConfig = Annotated[
    Annotated[ResizeConfig, Tag("resize")]
    | Annotated[LetterboxConfig, Tag("letterbox")]
    | Annotated[ResizeShorterSideConfig, Tag("resize_shorter_side")]
    | Annotated[ResizeToMultipleConfig, Tag("resize_to_multiple")]
    | Annotated[PadConfig, Tag("pad")]
    | Annotated[RandomCropConfig, Tag("random_crop")]
    | Annotated[CenterCropConfig, Tag("center_crop")]
    | Annotated[RandomResizedCropConfig, Tag("random_resized_crop")]
    | Annotated[RandomIoUCropConfig, Tag("random_iou_crop")]
    | Annotated[HorizontalFlipConfig, Tag("horizontal_flip")]
    | Annotated[VerticalFlipConfig, Tag("vertical_flip")]
    | Annotated[RotateConfig, Tag("rotate")]
    | Annotated[AffineConfig, Tag("affine")]
    | Annotated[PerspectiveConfig, Tag("perspective")]
    | Annotated[ColorJitterConfig, Tag("color_jitter")]
    | Annotated[GrayscaleConfig, Tag("grayscale")]
    | Annotated[GaussianBlurConfig, Tag("gaussian_blur")]
    | Annotated[GaussianNoiseConfig, Tag("gaussian_noise")]
    | Annotated[CutoutConfig, Tag("cutout")]
    | Annotated[MosaicConfig, Tag("mosaic")]
    | Annotated[MixupConfig, Tag("mixup")]
    | Annotated[CutMixConfig, Tag("cutmix")]
    | Annotated[CopyPasteConfig, Tag("copy_paste")]
    | Annotated[NormalizeConfig, Tag("normalize")]
    | Annotated[OneHotConfig, Tag("one_hot")]
    | Annotated[OwnTransform, Tag(OWN_TAG)],
    Discriminator(which),
]


class TransformsConfig(Section):
    """What happens to items on their way, in this order; null: what the task does by itself."""

    train: tuple[TransformConfig, ...] | None = Field(None, description="To those of the training split.")
    valid: tuple[TransformConfig, ...] | None = Field(None, description="To those of the validation split.")
    test: tuple[TransformConfig, ...] | None = Field(None, description="To those of test splits; null: as for valid.")

    def of(self, split: str) -> tuple[TransformConfig, ...] | None:
        """The transforms of a split: "train", "valid", or any test split."""
        if split == "train":
            return self.train
        return self.valid if split == "valid" or self.test is None else self.test
