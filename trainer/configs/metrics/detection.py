"""Metrics of detections."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import MetricConfig


class CocoConfig(MetricConfig):
    """Average precision and recall by COCO's rules: pycocotools' 12 numbers (10 of keypoints), evaluated in a process
    of their own while training goes on."""

    code: ClassVar[str] = "detection:CocoFigures"
    needs: ClassVar[tuple[str, ...]] = ("image_id", "classes", "scores", "true_classes")

    name: Literal["coco"]
    kind: Literal["bbox", "segm", "keypoints"] = Field("bbox", description="What is compared: boxes, masks, keypoints.")
    class_names: tuple[str, ...] = Field((), description="For the table of classes; none: the data set's.")
    use_categories: bool = Field(True, description="False takes all objects for one class.")
    evaluator: Literal["own", "pycocotools"] = Field("own", description="Who counts: the same figures, slower.")
    sigmas: tuple[float, ...] | None = Field(None, description="One a keypoint; null: those of COCO's 17 of a person.")

    def roles(self) -> tuple[str, ...]:
        of_kind = {"bbox": ("boxes",), "segm": ("masks",), "keypoints": ("keypoints", "boxes")}[self.kind]
        return (*type(self).needs, *(f"{side}{name}" for name in of_kind for side in ("", "true_")))
