"""What can be set under `options:` of the segmentation recipe, and what the task needs and gives."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainer.configs import Declaration, Returns, Section

Width = Annotated[int, Field(gt=0)]


class Options(Section):
    """Options of the task."""

    widths: tuple[Width, ...] = Field(
        (24, 48, 96, 128, 128), min_length=2, description="Channels of the U-Net at each size, the largest first."
    )
    reduction: Literal[1, 2, 4, 8] = Field(
        4,
        description="By how much the network's own picture is smaller; 2 sees finer things and costs up to four times.",
    )
    dice: float = Field(1.0, ge=0, description="Weight of the soft Dice loss beside the cross entropy.")
    tile: int = Field(512, gt=0, description="Pixels of the windows in which pictures are validated, each way.")
    margin: int = Field(64, ge=0, description="Pixels at the windows' inner edges that give context only.")
    flips: bool = Field(True, description="Validate with the mean over a window and its three mirror images.")


_LOSSES = ("loss", "cross_entropy", "dice")

DECLARATION = Declaration(
    fields=("image", "mask"),
    train=Returns(_LOSSES, {"pixels": ("logits", "labels")}),
    valid=Returns(_LOSSES, {"pixels": ("scores", "labels")}),
)
