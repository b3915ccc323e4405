"""Metrics of a whole confusion matrix."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.classification import OF_ONE_LABEL, Chosen


class BalancedAccuracyConfig(Chosen):
    """The mean recall of the classes that occur."""

    code: ClassVar[str] = "agreement:BalancedAccuracy"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["balanced_accuracy"]
    adjusted: bool = Field(False, description="0 for guessing and 1 for right, whatever the number of classes.")


class MatthewsConfig(Chosen):
    """Matthews' correlation of right and chosen classes, of any number of classes (Gorodkin 2004)."""

    code: ClassVar[str] = "agreement:Matthews"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["matthews"]


class KappaConfig(Chosen):
    """Cohen's kappa: agreement beyond what chance gives."""

    code: ClassVar[str] = "agreement:Kappa"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["kappa"]
    weights: Literal["none", "linear", "quadratic"] = Field(
        "none", description="How a wrong class counts: alike, by its distance from the right one, or by its square."
    )


class HammingConfig(Chosen):
    """The share of labels that are wrong; of multi-label examples each class counts."""

    code: ClassVar[str] = "agreement:Hamming"

    name: Literal["hamming"]
