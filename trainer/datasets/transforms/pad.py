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

    Boxes keep their coordinates. A picture that is already larger than `size` is a `TrainerError`. With `multiple`,
    pictures are filled up to `at_least` (height, width) first. `to_largest` is for configurations, which know the data
    set: the size of its largest picture becomes `at_least`.
    """

    size: Size | None = None
    multiple: int | None = None
    fill: int = 0
    to_largest: bool = False
    at_least: Size | None = None

    def __post_init__(self) -> None:
        if (self.size is None) == (self.multiple is None):
            raise TrainerError("Pad takes a size or a multiple", found=f"{self.size} and {self.multiple}")
        if self.at_least is not None and self.multiple is None:
            raise TrainerError("Pad takes `at_least` with `multiple`", found=f"size {self.size}")
        if self.to_largest:
            raise TrainerError("Pad alone does not know the largest picture", expected="`at_least`, or `size`")

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        height, width = geometry.image_size(item)
        if self.multiple is not None:
            least = self.at_least or (0, 0)
            size = (
                -(-max(height, least[0]) // self.multiple) * self.multiple,
                -(-max(width, least[1]) // self.multiple) * self.multiple,
            )
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
