"""Metrics of predicted classes."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import MetricConfig

OF_ONE_LABEL = ("logits|scores", "labels")
"""The roles of metrics without multi-label support."""


class OfClasses(MetricConfig):
    """Base of the classification metrics."""

    needs: ClassVar[tuple[str, ...]] = ("logits|scores", "labels|labels_hot")

    ignore_index: int | None = Field(
        None, description="Target label that is ignored; null: -1, and 255 in segmentation masks."
    )


class Chosen(OfClasses):
    """Base of the metrics of predicted classes."""

    threshold: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="Probability from which a class is predicted, between 0 and 1. Used by binary and multi-label "
        "tasks only.",
    )


class AccuracyConfig(Chosen):
    """Accuracy: the fraction of examples whose predicted class is the target. With multi-label data all classes must
    match.
    """

    code: ClassVar[str] = "accuracy:Accuracy"

    name: Literal["accuracy"]


class PixelAccuracyConfig(Chosen):
    """Pixel accuracy: the fraction of pixels whose predicted class is the target."""

    code: ClassVar[str] = "accuracy:Accuracy"

    name: Literal["pixel_accuracy"]


class TopKConfig(OfClasses):
    """Top-k accuracy: the fraction of examples whose target class is among the `k` highest scores."""

    code: ClassVar[str] = "accuracy:TopK"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["top_k"]
    k: int = Field(5, gt=0, description="Number of highest scores that may contain the target class.")


class ConfusionMatrixConfig(Chosen):
    """Confusion matrix: how often each target class was predicted as each class. Written as a report."""

    code: ClassVar[str] = "confusion:ConfusionMatrix"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["confusion_matrix"]


class ByClass(Chosen):
    """Base of the metrics with one value per class, which are also written as a report."""

    average: Literal["macro", "micro", "weighted"] = Field(
        "macro",
        description="How classes are averaged. macro: unweighted mean; micro: pooled counts of all classes; "
        "weighted: weighted by class frequency in the ground truth.",
    )
    top_k: int | None = Field(
        None,
        gt=0,
        description="Count a class as predicted if it is among the k highest scores; null: the highest score, or the "
        "scores above `threshold`.",
    )
    exclude: tuple[int, ...] = Field((), description="Class indices, from 0, that are left out of the average.")


class PrecisionConfig(ByClass):
    """Precision: TP / (TP + FP)."""

    code: ClassVar[str] = "counts:Precision"

    name: Literal["precision"]


class RecallConfig(ByClass):
    """Recall: TP / (TP + FN)."""

    code: ClassVar[str] = "counts:Recall"

    name: Literal["recall"]


class FBetaConfig(ByClass):
    """F-beta score: the weighted harmonic mean of precision and recall (van Rijsbergen 1979)."""

    code: ClassVar[str] = "counts:FBeta"

    name: Literal["f_beta"]
    beta: float = Field(
        1.0,
        gt=0,
        description="Weight of recall relative to precision; 1: equal weight (F1), 2: recall counts more (F2).",
    )


class F1Config(ByClass):
    """F1 score: the harmonic mean of precision and recall."""

    code: ClassVar[str] = "counts:FBeta"

    name: Literal["f1"]


class SpecificityConfig(ByClass):
    """Specificity, the true negative rate: TN / (TN + FP)."""

    code: ClassVar[str] = "counts:Specificity"

    name: Literal["specificity"]


class IoUConfig(ByClass):
    """Intersection over union, the Jaccard index: TP / (TP + FP + FN)."""

    code: ClassVar[str] = "counts:IoU"

    name: Literal["iou"]


class MeanIoUConfig(OfClasses):
    """Mean intersection over union of the classes."""

    code: ClassVar[str] = "counts:IoU"

    name: Literal["mean_iou"]
    exclude: tuple[int, ...] = Field(
        (), description="Class indices, from 0, that are left out of the mean, such as the background."
    )


class DiceConfig(ByClass):
    """The Sørensen-Dice coefficient: 2 TP / (2 TP + FP + FN)."""

    code: ClassVar[str] = "counts:Dice"

    name: Literal["dice"]


class LogLossConfig(OfClasses):
    """Log loss (cross entropy): the mean of -log p of the target class, in nats."""

    code: ClassVar[str] = "log_loss:LogLoss"

    name: Literal["log_loss"]


class BitsPerCharacterConfig(OfClasses):
    """Bits per character: the log loss of a text in bits, divided by its number of characters."""

    code: ClassVar[str] = "log_loss:BitsPerCharacter"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["bits_per_character"]


class PerplexityConfig(OfClasses):
    """Perplexity: exp of the mean log loss of the next token."""

    code: ClassVar[str] = "log_loss:Perplexity"

    name: Literal["perplexity"]
