"""The transforms by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from trainer.configs.choice import OWN_TAG, Choice
from trainer.configs.transforms.transforming import Transforming

TRANSFORMS: Mapping[str, str] = {
    "resize": "space:ResizeConfig",
    "letterbox": "space:LetterboxConfig",
    "resize_shorter_side": "space:ResizeShorterSideConfig",
    "resize_to_multiple": "space:ResizeToMultipleConfig",
    "pad": "space:PadConfig",
    "random_crop": "space:RandomCropConfig",
    "center_crop": "space:CenterCropConfig",
    "random_resized_crop": "space:RandomResizedCropConfig",
    "random_scaled_crop": "space:RandomScaledCropConfig",
    "random_iou_crop": "space:RandomIoUCropConfig",
    "horizontal_flip": "space:HorizontalFlipConfig",
    "vertical_flip": "space:VerticalFlipConfig",
    "quarter_turn": "space:QuarterTurnConfig",
    "rotate": "space:RotateConfig",
    "affine": "space:AffineConfig",
    "perspective": "space:PerspectiveConfig",
    "color_jitter": "pixels:ColorJitterConfig",
    "grayscale": "pixels:GrayscaleConfig",
    "gaussian_blur": "pixels:GaussianBlurConfig",
    "gaussian_noise": "pixels:GaussianNoiseConfig",
    "cutout": "pixels:CutoutConfig",
    "mosaic": "pixels:MosaicConfig",
    "mixup": "pixels:MixupConfig",
    "cutmix": "pixels:CutMixConfig",
    "copy_paste": "pixels:CopyPasteConfig",
    "normalize": "pixels:NormalizeConfig",
    "one_hot": "pixels:OneHotConfig",
    OWN_TAG: "transforming:OwnTransform",
}
"""Maps each transform's name to its section, as file:Class in this folder."""

if TYPE_CHECKING:
    TransformConfig = Transforming
else:
    TransformConfig = Annotated[Transforming, Choice(Transforming, TRANSFORMS)]
