"""Metrics of classes that were chosen."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import MetricConfig

IGNORED = "Labels that count for nothing; null: -1, and 255 of pixels."


class AccuracyConfig(MetricConfig):
    """The share of examples whose class is the right one."""

    code: ClassVar[str] = "accuracy:Accuracy"

    name: Literal["accuracy"]
    threshold: float = Field(0.5, gt=0, lt=1, description="From which probability on; binary and multi-label only.")
    ignore_index: int | None = Field(None, description=IGNORED)


class TopKConfig(MetricConfig):
    """The share of examples whose right class is among the `k` of greatest score."""

    code: ClassVar[str] = "accuracy:TopK"

    name: Literal["top_k"]
    k: int = Field(5, gt=0)
    ignore_index: int | None = Field(None, description=IGNORED)
