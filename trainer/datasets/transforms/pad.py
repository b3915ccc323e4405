"""Padding."""

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
    """Pads on the right and at the bottom: to `size` (height, width), or each side to a multiple of `multiple`.

    Boxes keep their coordinates. An image larger than `size` raises a `TrainerError`. With `multiple`, images are
    padded to at least `at_least` (height, width). `to_largest` works in configurations only, where the size of the data
    set's largest image becomes `at_least`.
    """

    size: Size | None = None
    multiple: int | None = None
    fill: int = 0
    to_largest: bool = False
    at_least: Size | None = None

    def __post_init__(self) -> None:
        if (self.size is None) == (self.multiple is None):
            raise TrainerError("Pad needs either a size or a multiple", found=f"{self.size} and {self.multiple}")
        if self.at_least is not None and self.multiple is None:
            raise TrainerError("`at_least` of Pad needs `multiple`", found=f"size {self.size}")
        if self.to_largest:
            raise TrainerError("`to_largest` of Pad works in configurations only", expected="`at_least`, or `size`")

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
                "the image is larger than the size to pad to",
                found=f"{height}x{width}",
                expected=f"at most {size[0]}x{size[1]} (height x width)",
                hint="Put a resize or a crop before the pad.",
            )
        return geometry.pad(item, 0, 0, size, fill=self.fill)
