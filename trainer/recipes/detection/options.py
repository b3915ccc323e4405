"""The `options:` of the detection recipe, and what the task requires and returns."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section
from trainer.recipes.parts.backbone_options import BackboneName, around_zero, backbone_field, imagenet


class Options(Section):
    """Options of the task."""

    backbone: BackboneName | None = backbone_field("`blocks` and `width`")
    width: int = Field(
        32,
        gt=0,
        description="Number of channels in the first stage of the backbone; each following stage has twice as many.",
    )
    blocks: tuple[int, int, int, int] = Field(
        (2, 2, 2, 2), description="Number of residual blocks in each of the four stages of the backbone."
    )
    pyramid_channels: int = Field(
        64, gt=0, multiple_of=8, description="Number of channels in the feature pyramid and the head, a multiple of 8."
    )
    head_depth: int = Field(
        4, gt=0, description="Number of convolutions in each of the two towers of the head (classes and boxes)."
    )
    ranges: tuple[float, float] = Field(
        (48, 96), description="Limits of the box sizes that each pyramid level predicts (FCOS), in pixels of the "
        "resized image: a location at stride 8 is assigned boxes whose farthest side is nearer than the first limit, "
        "at stride 32 beyond the second, at stride 16 in between."
    )  # fmt: skip
    radius: float = Field(
        1.5,
        gt=0,
        description="Center sampling radius (FCOS), in strides: a location is assigned boxes whose center is at most "
        "this far away.",
    )
    box_weight: float = Field(
        2.0, gt=0, description="Weight of the box regression loss relative to the classification loss."
    )
    candidates: int = Field(
        300,
        gt=0,
        description="Maximum number of highest-scoring candidates per image that enter non-maximum suppression.",
    )
    score_threshold: float = Field(
        0.02, ge=0, lt=1, description="Score threshold from 0 to below 1; lower-scoring detections are dropped."
    )
    iou_threshold: float = Field(
        0.6,
        gt=0,
        le=1,
        description="IoU threshold of non-maximum suppression: a detection is dropped if a higher-scoring one of "
        "its class overlaps it more.",
    )
    detections: int = Field(100, gt=0, description="Maximum number of detections per image.")


_LOSSES = ("loss", "class_loss", "box_loss")
_OBJECTS = ("image_id", "classes", "scores", "boxes", "true_classes", "true_boxes")

DECLARATION = Declaration(
    fields=("image", "boxes", "labels", "image_id", "placement"),
    train=Returns(_LOSSES),
    valid=Returns(_LOSSES, {"objects": _OBJECTS}),
    normalization=lambda options: imagenet() if options.backbone else around_zero(0.5, 0.5),
)
