"""Metrics of object detection."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import MetricConfig


class CocoConfig(MetricConfig):
    """COCO average precision and recall: pycocotools' 12 values (10 for keypoints), computed in a separate process
    while training continues.
    """

    code: ClassVar[str] = "detection:CocoFigures"
    needs: ClassVar[tuple[str, ...]] = ("image_id", "classes", "scores", "true_classes")

    name: Literal["coco"]
    kind: Literal["bbox", "segm", "keypoints"] = Field(
        "bbox", description="What is matched with the ground truth: bounding boxes, masks (segm) or keypoints."
    )
    class_names: tuple[str, ...] = Field(
        (), description="Class names for the report by class; empty: the names of the data set."
    )
    use_categories: bool = Field(
        True, description="Match objects of the same class only; false: treat all objects as one class."
    )
    evaluator: Literal["own", "pycocotools"] = Field(
        "own",
        description="Implementation of the metric. own: this project's; pycocotools: the original, with the same "
        "values but slower.",
    )
    sigmas: tuple[float, ...] | None = Field(
        None, description="OKS constants, one per keypoint; null: COCO's 17 constants for people."
    )

    def roles(self) -> tuple[str, ...]:
        of_kind = {"bbox": ("boxes",), "segm": ("masks",), "keypoints": ("keypoints", "boxes")}[self.kind]
        return (*type(self).needs, *(f"{side}{name}" for name in of_kind for side in ("", "true_")))
