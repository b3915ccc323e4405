"""What can be set under `options:` of the nuclei recipe, and what the task needs and gives."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainer.configs import Declaration, Returns, Section

Width = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Options(Section):
    """Options of the task."""

    widths: tuple[Width, ...] = Field(
        (16, 32, 64, 96, 128), min_length=2, description="Channels of the U-Net at each size, the largest first."
    )
    rare: int = Field(
        3, ge=1, description="How often an epoch has each picture of the rarer look, bright on dark or dark on bright."
    )
    foreground: Share = Field(0.45, description="From which probability on a pixel belongs to an object.")
    peak: Share = Field(0.3, description="How near to its object's middle a pixel must seem to be taken for it.")
    window: int = Field(2, ge=1, description="Of the pixels so near to each other only one is a middle.")
    least: int = Field(10, ge=1, description="Objects of fewer pixels are left out.")
    reach: float = Field(8.0, gt=0, description="How many pixels a pixel may point past the middle that it goes to.")
    apart: float = Field(1.2, ge=0, description="Two that aim at places less than so many radii apart are one.")
    flips: bool = Field(True, description="Validate with the mean over the eight ways to turn and mirror a picture.")


_LOSSES = ("loss", "foreground", "dice", "nearness", "offsets")

DECLARATION = Declaration(
    fields=("image", "masks", "labels", "crowd", "image_id"),
    train=Returns(_LOSSES),
    valid=Returns((*_LOSSES, "objects"), {"pixels": ("scores", "labels")}),
)
