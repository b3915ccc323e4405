"""Metrics of scores that rank."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.classification import OfClasses


class Area(OfClasses):
    """What areas under curves have."""

    binned: ClassVar[str] = ""
    """Where the binned form is."""

    average: Literal["macro", "weighted", "micro"] = Field(
        "macro", description="Over classes alike, by how often each occurs, or of all (example, class) pairs as one."
    )
    bins: int | None = Field(
        None,
        gt=1,
        le=100_000,
        description="Count probabilities in so many bins, on the device; null: exactly, from all scores of the period.",
    )

    def where(self) -> str:
        return type(self).code if self.bins is None else type(self).binned

    def settings(self) -> dict[str, Any]:
        """`bins` is the binned form's alone, `pairs` the exact one's."""
        settings = super().settings()
        settings.pop("bins" if self.bins is None else "pairs", None)
        return settings


class RocAucConfig(Area):
    """The area under the ROC curve (Fawcett 2006)."""

    code: ClassVar[str] = "ranking:RocAuc"
    binned: ClassVar[str] = "binned:RocAuc"

    name: Literal["roc_auc"]
    pairs: bool = Field(False, description="Compare classes two by two (Hand and Till 2001), not each with the rest.")


class AveragePrecisionConfig(Area):
    """The area under the precision-recall curve as a sum of steps."""

    code: ClassVar[str] = "ranking:AveragePrecision"
    binned: ClassVar[str] = "binned:AveragePrecision"

    name: Literal["average_precision"]


class Curve(OfClasses):
    """What curves have."""

    points: int = Field(1000, gt=1, le=100_000, description="A longer curve is thinned out to so many.")


class RocCurveConfig(Curve):
    """False against true positive rate by class: a report."""

    code: ClassVar[str] = "curves:RocCurve"

    name: Literal["roc_curve"]


class PrecisionRecallCurveConfig(Curve):
    """Recall against precision by class: a report."""

    code: ClassVar[str] = "curves:PrecisionRecallCurve"

    name: Literal["precision_recall_curve"]
