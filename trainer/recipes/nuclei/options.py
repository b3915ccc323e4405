"""The `options:` of the nuclei recipe, and what the task requires and returns."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainer.configs import Declaration, Returns, Section

Width = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Options(Section):
    """Options of the task."""

    widths: tuple[Width, ...] = Field(
        (16, 32, 64, 96, 128),
        min_length=2,
        description="Number of channels of the U-Net at each resolution, the highest resolution first.",
    )
    rare: int = Field(
        3,
        ge=1,
        description="How many times an epoch contains each image of the rarer appearance, bright on dark or dark "
        "on bright; 1: once.",
    )
    foreground: Share = Field(
        0.45, description="Foreground threshold: minimum probability of a pixel that belongs to an object, 0 to 1."
    )
    center_threshold: Share = Field(
        0.3, description="Center threshold: minimum value of the center heatmap at an object's center, 0 to 1."
    )
    nms_radius: int = Field(
        2,
        ge=1,
        description="Radius in pixels of the non-maximum suppression of the center heatmap; the NMS kernel size is "
        "twice the radius plus 1.",
    )
    min_pixels: int = Field(10, ge=1, description="Minimum area of an object in pixels; smaller objects are dropped.")
    max_center_distance: float = Field(
        8.0,
        gt=0,
        description="Maximum distance in pixels between the position that a pixel's offset points to and the center "
        "that it is assigned to.",
    )
    merge_distance: float = Field(
        1.2,
        ge=0,
        description="Merge distance: two objects are merged if the mean positions that their pixels point to are "
        "closer than this multiple of their radius; 0: never.",
    )
    flips: bool = Field(
        True,
        description="Test-time augmentation: average predictions over the eight rotations and reflections of an image.",
    )


_LOSSES = ("loss", "foreground", "dice", "center_heatmap", "offsets")

DECLARATION = Declaration(
    fields=("image", "masks", "labels", "crowd", "image_id"),
    train=Returns(_LOSSES),
    valid=Returns((*_LOSSES, "objects"), {"pixels": ("scores", "labels")}),
)
