"""Metrics of segmentations."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.classification import OF_ONE_LABEL, OfClasses
from trainer.configs.metrics.metric import MetricConfig


class BoundaryFConfig(OfClasses):
    """The F-score of boundary pixels (Csurka et al. 2013), the mean over images, then classes."""

    code: ClassVar[str] = "boundary:BoundaryF"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["boundary_f"]
    tolerance: float | None = Field(
        None, ge=0, description="How many pixels off still count; null: 0.75 % of the image's diagonal, rounded up."
    )


class PanopticQualityConfig(MetricConfig):
    """Panoptic quality (Kirillov et al. 2019), the mean over the classes that occur."""

    code: ClassVar[str] = "panoptic:PanopticQuality"
    needs: ClassVar[tuple[str, ...]] = ("segments", "true_segments")

    name: Literal["panoptic_quality"]
    classes: int = Field(gt=0, le=100_000, description="How many there are.")
    per_class: int = Field(1000, gt=0, description="A pixel's segment is class * per_class + number.")
