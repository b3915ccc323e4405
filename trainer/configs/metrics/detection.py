"""Metrics of detections."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import MetricConfig


class CocoConfig(MetricConfig):
    """Average precision and recall by COCO's rules: pycocotools' 12 numbers (10 of keypoints), evaluated in a process
    of their own while training goes on."""

    code: ClassVar[str] = "detection:CocoFigures"

    name: Literal["coco"]
    kind: Literal["bbox", "segm", "keypoints"] = Field("bbox", description="What is compared: boxes, masks, keypoints.")
    class_names: tuple[str, ...] = Field((), description="For the table of classes; none: the data set's.")
    use_categories: bool = Field(True, description="False takes all objects for one class.")
    evaluator: Literal["own", "pycocotools"] = Field("own", description="Who counts: the same figures, slower.")
    sigmas: tuple[float, ...] | None = Field(None, description="One a keypoint; null: those of COCO's 17 of a person.")
