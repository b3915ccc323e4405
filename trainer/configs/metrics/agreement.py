"""Metrics of a confusion matrix."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.classification import OF_ONE_LABEL, Chosen


class BalancedAccuracyConfig(Chosen):
    """Balanced accuracy: the mean recall of the classes that occur in the ground truth."""

    code: ClassVar[str] = "agreement:BalancedAccuracy"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["balanced_accuracy"]
    adjusted: bool = Field(
        False, description="Rescale the value so that random guessing scores 0 and perfect predictions score 1."
    )


class MatthewsConfig(Chosen):
    """Matthews correlation coefficient of target and predicted classes, for any number of classes (Gorodkin 2004)."""

    code: ClassVar[str] = "agreement:Matthews"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["matthews"]


class KappaConfig(Chosen):
    """Cohen's kappa: agreement of target and predicted classes, corrected for chance."""

    code: ClassVar[str] = "agreement:Kappa"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["kappa"]
    weights: Literal["none", "linear", "quadratic"] = Field(
        "none",
        description="How much a misclassification counts. none: all the same; linear: by the distance between "
        "the class numbers; quadratic: by the squared distance.",
    )


class HammingConfig(Chosen):
    """Hamming loss: the fraction of wrong labels. With multi-label data every class counts separately."""

    code: ClassVar[str] = "agreement:Hamming"

    name: Literal["hamming"]
