"""The `options:` of the segmentation recipe, and what the task requires and returns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainer.configs import Declaration, Returns, Section
from trainer.recipes.parts.backbone_options import BackboneName, around_zero, backbone_field, imagenet

Width = Annotated[int, Field(gt=0)]


class Options(Section):
    """Options of the task."""

    backbone: BackboneName | None = backbone_field("`reduction`, which is 4, and all but the first three of `widths`")
    widths: tuple[Width, ...] = Field(
        (24, 48, 96, 128, 128),
        min_length=2,
        description="Number of channels of the U-Net at each resolution, the highest resolution first.",
    )
    reduction: Literal[1, 2, 4, 8] = Field(
        4,
        description="Factor by which the network's input resolution is reduced (1, 2, 4 or 8); 2 resolves finer "
        "details than 4 and costs up to four times as much.",
    )
    dice: float = Field(
        1.0, ge=0, description="Weight of the soft Dice loss relative to the cross entropy; 0: cross entropy only."
    )
    tile: int = Field(512, gt=0, description="Height and width in pixels of the tiles in which images are validated.")
    margin: int = Field(
        64, ge=0, description="Overlap in pixels at the inner edges of tiles, which gives context only."
    )
    flips: bool = Field(
        True, description="Test-time augmentation: average predictions over a tile and its three reflections."
    )


_LOSSES = ("loss", "cross_entropy", "dice")

DECLARATION = Declaration(
    fields=("image", "mask"),
    train=Returns(_LOSSES, {"pixels": ("logits", "labels")}),
    valid=Returns(_LOSSES, {"pixels": ("scores", "labels")}),
    normalization=lambda options: imagenet() if options.backbone else around_zero(128 / 255, 64 / 255),
)
