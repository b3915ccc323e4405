"""Metrics that rank examples by score."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.classification import OfClasses


class Area(OfClasses):
    """Base of the areas under curves."""

    binned: ClassVar[str] = ""
    """The class of the binned variant."""

    average: Literal["macro", "weighted", "micro"] = Field(
        "macro",
        description="How classes are averaged. macro: unweighted mean; weighted: weighted by class frequency; "
        "micro: pooled, all (example, class) pairs as one binary problem.",
    )
    bins: int | None = Field(
        None,
        gt=1,
        le=100_000,
        description="Number of probability bins for an approximate value that is computed on the device; null: the "
        "exact value from all scores of the split.",
    )

    def where(self) -> str:
        return type(self).code if self.bins is None else type(self).binned

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of the metric's class: `bins` for the binned variant, `pairs` for the exact one."""
        settings = super().settings()
        settings.pop("bins" if self.bins is None else "pairs", None)
        return settings


class RocAucConfig(Area):
    """Area under the ROC curve (Fawcett 2006)."""

    code: ClassVar[str] = "ranking:RocAuc"
    binned: ClassVar[str] = "binned_curves:RocAuc"

    name: Literal["roc_auc"]
    pairs: bool = Field(
        False, description="Average over pairs of classes, one-vs-one (Hand and Till 2001); false: one-vs-rest."
    )


class AveragePrecisionConfig(Area):
    """Average precision: the area under the precision-recall curve, as a sum of steps."""

    code: ClassVar[str] = "ranking:AveragePrecision"
    binned: ClassVar[str] = "binned_curves:AveragePrecision"

    name: Literal["average_precision"]


class Curve(OfClasses):
    """Base of the curves."""

    points: int = Field(
        1000,
        gt=1,
        le=100_000,
        description="Maximum number of points of the reported curve; longer curves are thinned out.",
    )


class RocCurveConfig(Curve):
    """ROC curve by class: true positive rate over false positive rate. Written as a report."""

    code: ClassVar[str] = "curves:RocCurve"

    name: Literal["roc_curve"]


class PrecisionRecallCurveConfig(Curve):
    """Precision-recall curve by class. Written as a report."""

    code: ClassVar[str] = "curves:PrecisionRecallCurve"

    name: Literal["precision_recall_curve"]
