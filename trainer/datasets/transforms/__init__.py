"""Transforms of items, pixels and annotations together, and the pipeline that applies them."""

from trainer.datasets.transforms.color import ColorJitter, Grayscale
from trainer.datasets.transforms.copy_paste import CopyPaste
from trainer.datasets.transforms.crop import (
    CenterCrop,
    RandomCrop,
    RandomIoUCrop,
    RandomResizedCrop,
    RandomScaledCrop,
)
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.flip import HorizontalFlip, QuarterTurn, VerticalFlip
from trainer.datasets.transforms.mixing import CutMix, Mixup
from trainer.datasets.transforms.mosaic import Mosaic
from trainer.datasets.transforms.noise import Cutout, GaussianBlur, GaussianNoise
from trainer.datasets.transforms.numbers import Normalize, OneHot
from trainer.datasets.transforms.pad import Pad
from trainer.datasets.transforms.pipeline import Pipeline
from trainer.datasets.transforms.resize import Letterbox, Resize, ResizeShorterSide, ResizeToMultiple
from trainer.datasets.transforms.transform import Mixing, OtherItem, Transform, Warp
from trainer.datasets.transforms.warp import Affine, Perspective, Rotate

__all__ = [
    "Affine",
    "CenterCrop",
    "ColorJitter",
    "CopyPaste",
    "CutMix",
    "Cutout",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "HorizontalFlip",
    "ItemDraws",
    "Letterbox",
    "Mixing",
    "Mixup",
    "Mosaic",
    "Normalize",
    "OneHot",
    "OtherItem",
    "Pad",
    "Perspective",
    "Pipeline",
    "QuarterTurn",
    "RandomCrop",
    "RandomIoUCrop",
    "RandomResizedCrop",
    "RandomScaledCrop",
    "Resize",
    "ResizeShorterSide",
    "ResizeToMultiple",
    "Rotate",
    "Transform",
    "VerticalFlip",
    "Warp",
]
