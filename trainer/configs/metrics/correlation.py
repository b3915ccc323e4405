"""Metrics of predicted numbers relative to their targets, and of the calibration of probabilities."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.classification import OF_ONE_LABEL, OfClasses
from trainer.configs.metrics.metric import OF_NUMBERS, MetricConfig


class R2Config(MetricConfig):
    """Coefficient of determination, R²."""

    code: ClassVar[str] = "correlation:R2"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["r2"]


class PearsonConfig(MetricConfig):
    """Pearson correlation coefficient of predictions and targets."""

    code: ClassVar[str] = "correlation:Pearson"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["pearson"]


class SpearmanConfig(MetricConfig):
    """Spearman rank correlation of predictions and targets."""

    code: ClassVar[str] = "correlation:Spearman"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["spearman"]


class CalibrationErrorConfig(OfClasses):
    """Expected calibration error (Guo et al. 2017): the mean difference between confidence and accuracy."""

    code: ClassVar[str] = "calibration:CalibrationError"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["calibration_error"]
    bins: int = Field(15, gt=0, le=10_000, description="Number of equally wide bins of confidence between 0 and 1.")
