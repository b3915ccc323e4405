"""Metrics of scores that rank."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.classification import IGNORED
from trainer.configs.metrics.metric import MetricConfig


class _Area(MetricConfig):
    average: Literal["macro", "weighted", "micro"] = Field(
        "macro", description="Over classes alike, by how often each occurs, or of all (example, class) pairs as one."
    )
    ignore_index: int | None = Field(None, description=IGNORED)


class RocAucConfig(_Area):
    """The area under the ROC curve (Fawcett 2006), exactly, from all scores of the period."""

    code: ClassVar[str] = "ranking:RocAuc"

    name: Literal["roc_auc"]
    pairs: bool = Field(False, description="Compare classes two by two (Hand and Till 2001), not each with the rest.")


class AveragePrecisionConfig(_Area):
    """The area under the precision-recall curve as a sum of steps, exactly."""

    code: ClassVar[str] = "ranking:AveragePrecision"

    name: Literal["average_precision"]
