"""Metrics of segmentation."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.classification import OF_ONE_LABEL, OfClasses
from trainer.configs.metrics.metric import MetricConfig


class BoundaryFConfig(OfClasses):
    """Boundary F-score (Csurka et al. 2013): averaged over images, then over classes."""

    code: ClassVar[str] = "boundary:BoundaryF"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["boundary_f"]
    tolerance: float | None = Field(
        None,
        ge=0,
        description="Maximum distance in pixels between a predicted and a target boundary pixel that match; "
        "null: 0.75 % of the image diagonal, rounded up.",
    )


class PanopticQualityConfig(MetricConfig):
    """Panoptic quality (Kirillov et al. 2019), averaged over the classes that occur."""

    code: ClassVar[str] = "panoptic:PanopticQuality"
    needs: ClassVar[tuple[str, ...]] = ("segments", "true_segments")

    name: Literal["panoptic_quality"]
    classes: int = Field(gt=0, le=100_000, description="Number of classes.")
    per_class: int = Field(
        1000,
        gt=0,
        description="Maximum number of segments per class: a pixel's segment id is class * per_class + number.",
    )
