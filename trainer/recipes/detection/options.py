"""What can be set under `options:` of the detection recipe, and what the task needs and gives."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    width: int = Field(32, gt=0, description="Channels of the first stage; each further one has twice as many.")
    blocks: tuple[int, int, int, int] = Field((2, 2, 2, 2), description="Residual blocks of each stage.")
    pyramid_channels: int = Field(64, gt=0, multiple_of=8, description="Channels of the feature pyramid and the head.")
    head_depth: int = Field(4, gt=0, description="Convolutions of each of the head's two towers.")
    ranges: tuple[float, float] = Field(
        (48, 96), description="Stride 8 answers for boxes whose farthest side is nearer than the first number, in "
        "pixels of the resized picture, stride 32 for those beyond the second, stride 16 between."
    )  # fmt: skip
    radius: float = Field(1.5, gt=0, description="A place answers for boxes whose middle is nearer, in strides.")
    box_weight: float = Field(2.0, gt=0, description="The boxes' loss by that of the classes.")
    candidates: int = Field(300, gt=0, description="The best of a picture that go into non-maximum suppression.")
    least_score: float = Field(0.02, ge=0, lt=1, description="Worse detections are dropped.")
    iou_threshold: float = Field(
        0.6, gt=0, le=1, description="A detection is dropped if a better one overlaps it more."
    )
    detections: int = Field(100, gt=0, description="At most so many a picture.")


_LOSSES = ("loss", "class_loss", "box_loss")
_OBJECTS = ("image_id", "classes", "scores", "boxes", "true_classes", "true_boxes")

DECLARATION = Declaration(
    fields=("image", "boxes", "labels", "image_id", "placement"),
    train=Returns(_LOSSES),
    valid=Returns(_LOSSES, {"objects": _OBJECTS}),
)
