"""Metrics of classes that were chosen."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import MetricConfig

OF_ONE_LABEL = ("logits|scores", "labels")
"""What metrics need that know no multi-label tasks."""


class OfClasses(MetricConfig):
    """What metrics of classes have."""

    needs: ClassVar[tuple[str, ...]] = ("logits|scores", "labels|labels_hot")

    ignore_index: int | None = Field(None, description="Labels that count for nothing; null: -1, and 255 of pixels.")


class Chosen(OfClasses):
    """What metrics of chosen classes have."""

    threshold: float = Field(0.5, gt=0, lt=1, description="From which probability on; binary and multi-label only.")


class AccuracyConfig(Chosen):
    """The share of examples whose class is the right one; of multi-label ones all classes."""

    code: ClassVar[str] = "accuracy:Accuracy"

    name: Literal["accuracy"]


class PixelAccuracyConfig(Chosen):
    """The share of pixels whose class is the right one."""

    code: ClassVar[str] = "accuracy:Accuracy"

    name: Literal["pixel_accuracy"]


class TopKConfig(OfClasses):
    """The share of examples whose right class is among the `k` of greatest score."""

    code: ClassVar[str] = "accuracy:TopK"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["top_k"]
    k: int = Field(5, gt=0)


class ConfusionMatrixConfig(Chosen):
    """How often each class was taken for each: a report."""

    code: ClassVar[str] = "confusion:ConfusionMatrix"
    needs: ClassVar[tuple[str, ...]] = OF_ONE_LABEL

    name: Literal["confusion_matrix"]


class ByClass(Chosen):
    """What metrics by class have; with a table by class as a report."""

    average: Literal["macro", "micro", "weighted"] = Field(
        "macro", description="Over classes alike, of all counts together, or by how often each class is right."
    )
    top_k: int | None = Field(None, gt=0, description="Choose the classes of greatest score instead.")
    exclude: tuple[int, ...] = Field((), description="Classes that are left out of the average.")


class PrecisionConfig(ByClass):
    """How much of what is chosen is right: TP / (TP + FP)."""

    code: ClassVar[str] = "counts:Precision"

    name: Literal["precision"]


class RecallConfig(ByClass):
    """How much of what is right is chosen: TP / (TP + FN)."""

    code: ClassVar[str] = "counts:Recall"

    name: Literal["recall"]


class FBetaConfig(ByClass):
    """The weighted harmonic mean of precision and recall (van Rijsbergen 1979)."""

    code: ClassVar[str] = "counts:FBeta"

    name: Literal["f_beta"]
    beta: float = Field(1.0, gt=0, description="How much more recall counts than precision.")


class F1Config(ByClass):
    """The harmonic mean of precision and recall."""

    code: ClassVar[str] = "counts:FBeta"

    name: Literal["f1"]


class SpecificityConfig(ByClass):
    """How much of what is not right is not chosen: TN / (TN + FP)."""

    code: ClassVar[str] = "counts:Specificity"

    name: Literal["specificity"]


class IoUConfig(ByClass):
    """Intersection over union, the Jaccard index: TP / (TP + FP + FN)."""

    code: ClassVar[str] = "counts:IoU"

    name: Literal["iou"]


class MeanIoUConfig(OfClasses):
    """The mean of the classes' intersections over union."""

    code: ClassVar[str] = "counts:IoU"

    name: Literal["mean_iou"]
    exclude: tuple[int, ...] = Field((), description="Classes that are left out of the mean: the background, say.")


class DiceConfig(ByClass):
    """The Sørensen-Dice coefficient: 2 TP / (2 TP + FP + FN)."""

    code: ClassVar[str] = "counts:Dice"

    name: Literal["dice"]


class LogLossConfig(OfClasses):
    """The mean of -log p of the right class, in nats."""

    code: ClassVar[str] = "log_loss:LogLoss"

    name: Literal["log_loss"]


class PerplexityConfig(OfClasses):
    """exp of the log loss, of next tokens."""

    code: ClassVar[str] = "log_loss:Perplexity"

    name: Literal["perplexity"]
