"""Mixes two items: blended, or a piece of one inside the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import FIELDS, Item
from trainer.datasets.transforms import geometry, objects
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.geometry import Size
from trainer.datasets.transforms.pictures import to_picture
from trainer.datasets.transforms.resize import letterbox
from trainer.datasets.transforms.transform import Mixing, OtherItem

IMAGES = tuple(field.name for field in FIELDS.values() if field.is_image)
_PASTED = (*IMAGES, "mask")


@dataclass
class Mixup(Mixing):
    """Blends `image` and `labels_hot` with those of another item (Zhang et al. 2018); keeps the objects of both.

    The item's weight is drawn from Beta(`alpha`, `alpha`) and is at least half, so that `label` still names the larger
    part. The other item is fitted into the size of the item.
    """

    alpha: float = 0.2

    def mix(self, item: Item, draws: ItemDraws, other: OtherItem) -> Item:
        if "mask" in item:
            raise TrainerError("mixup can't blend the classes of a mask", hint="Use cutmix or mosaic.")
        share = draws.beta(self.alpha)
        share = max(share, 1 - share)
        second = fitted(other(), geometry.image_size(item))
        mixed = {
            **item,
            **objects.joined([item, second]),
            **mixed_labels("mixup", [(share, item), (1 - share, second)]),
        }
        for name in IMAGES:
            if name in item:
                mixed[name] = blended(item[name], second[name], 1 - share)
        return mixed


@dataclass
class CutMix(Mixing):
    """Pastes a rectangle of another item at the same position, and mixes `labels_hot` by area (Yun et al. 2019).

    The rectangle's fraction of the area is drawn from Beta(`alpha`, `alpha`) before clipping at the edges. The other
    item is fitted into the size of the item. Objects with a visible fraction of at least `min_visible` are kept; those
    of the other item are clipped to the rectangle.
    """

    alpha: float = 1.0
    min_visible: float = field(default=0.1, kw_only=True)

    def mix(self, item: Item, draws: ItemDraws, other: OtherItem) -> Item:
        height, width = geometry.image_size(item)
        side = math.sqrt(draws.beta(self.alpha))
        y, x = draws.uniform(0, height), draws.uniform(0, width)
        top, bottom = (min(max(round(y + way * side * height / 2), 0), height) for way in (-1, 1))
        left, right = (min(max(round(x + way * side * width / 2), 0), width) for way in (-1, 1))
        inner = bottom - top, right - left
        if 0 in inner:
            return item
        piece = geometry.crop(fitted(other(), (height, width)), top, left, inner, min_visible=self.min_visible)
        second = geometry.pad(piece, top, left, (height, width), fill=0)
        pasted = np.zeros((height, width), bool)
        pasted[top:bottom, left:right] = True
        share = inner[0] * inner[1] / (height * width)
        return {
            **over(item, second, pasted, min_visible=self.min_visible),
            **mixed_labels("cutmix", [(1 - share, item), (share, second)]),
        }


def over(item: Item, second: Item, pasted: np.ndarray, *, min_visible: float) -> Item:
    """The item with the pixels `pasted` (bool [H, W]) and the objects of another item of the same size."""
    below = objects.without_hidden(item, pasted, min_visible=min_visible)
    mixed = {**below, **objects.joined([below, second])}
    for name in _PASTED:
        if name in item:
            pixels = item[name].copy()
            where = pasted_in(pasted, pixels.shape[:2])
            np.copyto(_whole(pixels), _whole(second[name]), where=where)
            mixed[name] = pixels
    return mixed


def _whole(pixels: np.ndarray) -> np.ndarray:
    """[H, W] of an image or mask with all channels as one element: copying is 25 times as fast as with channels."""
    if pixels.ndim == 2:
        return pixels
    return np.ascontiguousarray(pixels).view(f"V{pixels.itemsize * pixels.shape[2]}")[..., 0]


def pasted_in(pasted: np.ndarray, size: Size) -> np.ndarray:
    """Resizes `pasted` to the resolution of a field with another size (a larger `target`)."""
    return pasted if pasted.shape == size else geometry.resize({"mask": pasted.view(np.uint8)}, size)["mask"] > 0


def mixed_labels(name: str, parts: Sequence[tuple[float, Item]]) -> Item:
    """The `labels_hot` of items mixed with their weights, for the transform `name`; empty if items have no class."""
    first = parts[0][1]
    if "labels_hot" in first:
        return {"labels_hot": np.sum([np.float32(share) * item["labels_hot"] for share, item in parts], axis=0)}
    if "label" in first:
        raise TrainerError(
            f"{name} needs soft labels, but the item has a single class",
            found=f"an item of {', '.join(first)}",
            expected="labels_hot",
            hint=f"Put one_hot before {name}.",
        )
    return {}


def fitted(item: Item, size: Size) -> Item:
    """Resizes an item to fit into `size` with the same aspect ratio, on black."""
    return item if geometry.image_size(item) == size else letterbox(item, size, 0)


def blended(first: np.ndarray, second: np.ndarray, share: float) -> np.ndarray:
    """Blends with weight `share` of the second image."""
    if first.dtype != np.uint8:
        return first + np.float32(share) * (second - first)
    from PIL import Image

    return np.asarray(Image.blend(to_picture(first), to_picture(second), share)).reshape(first.shape)
