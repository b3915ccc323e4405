"""Two items in one: blended, or a piece of one in the other."""

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
    """`image` and `labels_hot` blended with those of another item (Zhang et al. 2018); the objects of both stay.

    The share of the item itself is drawn from Beta(`alpha`, `alpha`), and never less than half, so that a `label` left
    beside `labels_hot` names the larger part. The other is fitted into the size of the item.
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
    """A rectangle of another item in its place, `labels_hot` by area (Yun et al. 2019).

    The rectangle's share of the area is drawn from Beta(`alpha`, `alpha`) before it is cut at the edges. The other is
    fitted into the size of the item. Objects stay of which `min_visible` is seen: those of the other are cut to the
    rectangle.
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
    """The item with the pixels `pasted` (bool [H, W]) of another of the same size over its own, and its objects."""
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
    """[H, W] of an image's or mask's pixels, channels and all: copying some is 25 times as fast as with channels."""
    if pixels.ndim == 2:
        return pixels
    return np.ascontiguousarray(pixels).view(f"V{pixels.itemsize * pixels.shape[2]}")[..., 0]


def pasted_in(pasted: np.ndarray, size: Size) -> np.ndarray:
    """`pasted` in the pixels of a field of another size (a larger `target`)."""
    return pasted if pasted.shape == size else geometry.resize({"mask": pasted.view(np.uint8)}, size)["mask"] > 0


def mixed_labels(name: str, parts: Sequence[tuple[float, Item]]) -> Item:
    """The `labels_hot` of items by their shares, for the transform called `name`; nothing where items have no class."""
    first = parts[0][1]
    if "labels_hot" in first:
        return {"labels_hot": np.sum([np.float32(share) * item["labels_hot"] for share, item in parts], axis=0)}
    if "label" in first:
        raise TrainerError(
            f"{name} makes soft labels, and this item has but one class",
            found=f"an item of {', '.join(first)}",
            expected="labels_hot",
            hint=f"Put one_hot before {name}.",
        )
    return {}


def fitted(item: Item, size: Size) -> Item:
    """In `size`, with its proportions, on black."""
    return item if geometry.image_size(item) == size else letterbox(item, size, 0)


def blended(first: np.ndarray, second: np.ndarray, share: float) -> np.ndarray:
    """`share` of the second image in the first."""
    if first.dtype != np.uint8:
        return first + np.float32(share) * (second - first)
    from PIL import Image

    return np.asarray(Image.blend(to_picture(first), to_picture(second), share)).reshape(first.shape)
