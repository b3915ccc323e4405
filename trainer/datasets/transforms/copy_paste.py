"""Pastes objects of another image."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import Item
from trainer.datasets.transforms import geometry, objects
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.mixing import fitted, over
from trainer.datasets.transforms.transform import Mixing, OtherItem


@dataclass
class CopyPaste(Mixing):
    """Cuts objects of another item out along their `masks` and pastes them into this one (Ghiasi et al. 2021).

    Without masks, whole boxes are pasted. Crowds are not pasted. Pixels hidden by pasted objects are removed from the
    masks below, and objects with a smaller visible fraction than `min_visible` are dropped.

    Args:
        share: probability that an object of the other item is pasted.
        max_objects: maximum number of pasted objects.
    """

    share: float = 0.5
    max_objects: int = 20
    min_visible: float = field(default=0.1, kw_only=True)

    def mix(self, item: Item, draws: ItemDraws, other: OtherItem) -> Item:
        if "boxes" not in item:
            raise TrainerError("copy_paste needs boxes", found=f"an item of {', '.join(item)}", expected="boxes")
        size = geometry.image_size(item)
        second = fitted(other(), size)
        is_crowd = second.get("crowd", np.zeros(len(second["boxes"]), bool))
        chosen = np.array([not crowd and draws.chance(self.share) for crowd in is_crowd], bool)
        chosen &= np.cumsum(chosen) <= self.max_objects
        if not chosen.any():
            return item
        second = objects.keep(second, chosen)
        return over(item, second, pixels_of(second, size), min_visible=self.min_visible)


def pixels_of(item: Item, size: tuple[int, int]) -> np.ndarray:
    """bool [H, W]: the pixels of the item's objects, from their masks or, without masks, their boxes."""
    if "masks" in item:
        return np.any(item["masks"], axis=0)
    pixels = np.zeros(size, bool)
    for left, top, right, bottom in np.rint(item["boxes"]).astype(int):
        pixels[top:bottom, left:right] = True
    return pixels
