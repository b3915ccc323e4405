"""Metrics of predicted numbers beside the right ones, and of probabilities beside how often they are right."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.classification import OF_ONE_LABEL, OfClasses
from trainer.configs.metrics.metric import OF_NUMBERS, MetricConfig


class R2Config(MetricConfig):
    """The coefficient of determination."""

    code: ClassVar[str] = "correlation:R2"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["r2"]


class PearsonConfig(MetricConfig):
    """Pearson's correlation."""

    code: ClassVar[str] = "correlation:Pearson"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["pearson"]


class SpearmanConfig(MetricConfig):
    """Pearson's correlation of ranks."""

    code: ClassVar[str] = "correlation:Spearman"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["spearman"]


class CalibrationErrorConfig(OfClasses):
    """The expected calibration error (Guo et al. 2017): how far confidence and accuracy lie apart."""

    code: ClassVar[str] = "calibration:CalibrationError"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["calibration_error"]
    bins: int = Field(15, gt=0, le=10_000, description="Of confidence, equally wide.")
