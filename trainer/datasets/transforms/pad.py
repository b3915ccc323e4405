"""Borders."""

from __future__ import annotations

from dataclasses import dataclass

from trainer import TrainerError
from trainer.datasets.fields import Item
from trainer.datasets.transforms import geometry
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.geometry import Size
from trainer.datasets.transforms.transform import Transform


@dataclass
class Pad(Transform):
    """Filled up on the right and below: to `size` (height, width), or each side to a multiple of `multiple`.

    Boxes keep their coordinates. A picture that is already larger than `size` is a `TrainerError`. `to_largest` is for
    configurations, which know the data set: it becomes the `size` of its largest picture, rounded up to `multiple`.
    """

    size: Size | None = None
    multiple: int | None = None
    fill: int = 0
    to_largest: bool = False

    def __post_init__(self) -> None:
        if (self.size is None) == (self.multiple is None):
            raise TrainerError("Pad takes a size or a multiple", found=f"{self.size} and {self.multiple}")
        if self.to_largest:
            raise TrainerError("Pad alone does not know the largest picture", expected="`size` instead of `to_largest`")

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        height, width = geometry.image_size(item)
        if self.multiple is not None:
            size = -(-height // self.multiple) * self.multiple, -(-width // self.multiple) * self.multiple
        else:
            assert self.size is not None
            size = self.size
        if height > size[0] or width > size[1]:
            raise TrainerError(
                "the picture is larger than what it is to be padded to",
                found=f"{height} x {width}",
                expected=f"at most {size[0]} x {size[1]} (height x width)",
                hint="Put a resize or a crop before the pad.",
            )
        return geometry.pad(item, 0, 0, size, fill=self.fill)
