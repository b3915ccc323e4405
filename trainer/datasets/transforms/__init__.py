"""Transforms of items, pixels and annotations together, and the pipeline that applies them."""

from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.flip import HorizontalFlip, VerticalFlip
from trainer.datasets.transforms.pipeline import Pipeline
from trainer.datasets.transforms.resize import Letterbox, Resize, ResizeShorterSide, ResizeToMultiple
from trainer.datasets.transforms.transform import Mixing, OtherItem, Transform, Warp
from trainer.datasets.transforms.warp import Affine, Perspective, Rotate

__all__ = [
    "Affine",
    "HorizontalFlip",
    "ItemDraws",
    "Letterbox",
    "Mixing",
    "OtherItem",
    "Perspective",
    "Pipeline",
    "Resize",
    "ResizeShorterSide",
    "ResizeToMultiple",
    "Rotate",
    "Transform",
    "VerticalFlip",
    "Warp",
]
