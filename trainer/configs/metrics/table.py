"""The metrics by name, a row each; their sections are imported, and their schemas built, when one is named.

All of them in one union would cost every start 60 ms.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from trainer.configs.metrics.metric import MetricConfig, OwnMetric
from trainer.configs.own import names_own_class
from trainer.configs.problems import did_you_mean

METRICS: Mapping[str, str] = {
    "accuracy": "classification:AccuracyConfig",
    "average_precision": "ranking:AveragePrecisionConfig",
    "confusion_matrix": "classification:ConfusionMatrixConfig",
    "dice": "classification:DiceConfig",
    "f1": "classification:F1Config",
    "f_beta": "classification:FBetaConfig",
    "iou": "classification:IoUConfig",
    "log_loss": "classification:LogLossConfig",
    "mean_absolute_error": "numbers:MeanAbsoluteErrorConfig",
    "mean_iou": "classification:MeanIoUConfig",
    "mean_squared_error": "numbers:MeanSquaredErrorConfig",
    "perplexity": "classification:PerplexityConfig",
    "pixel_accuracy": "classification:PixelAccuracyConfig",
    "precision": "classification:PrecisionConfig",
    "precision_recall_curve": "ranking:PrecisionRecallCurveConfig",
    "psnr": "numbers:PsnrConfig",
    "recall": "classification:RecallConfig",
    "roc_auc": "ranking:RocAucConfig",
    "roc_curve": "ranking:RocCurveConfig",
    "root_mean_squared_error": "numbers:RootMeanSquaredErrorConfig",
    "specificity": "classification:SpecificityConfig",
    "ssim": "numbers:SsimConfig",
    "top_k": "classification:TopKConfig",
}
"""By name, the section: file:Class in this folder."""


def metric_config(name: str) -> type[MetricConfig]:
    """The section of a metric by its name.

    Raises:
        KeyError: there is no such metric.
    """
    file, _, class_name = METRICS[name].partition(":")
    section: type[MetricConfig] = getattr(importlib.import_module(f"trainer.configs.metrics.{file}"), class_name)
    return section


def section_meant(value: Any) -> type[MetricConfig] | None:
    """The section that a mapping is meant as, by its `name`; None where that is no metric's."""
    name = value.get("name") if isinstance(value, dict) else None
    if names_own_class(name):
        return OwnMetric
    return metric_config(name) if isinstance(name, str) and name in METRICS else None


class _ByName:
    """Validates an entry with the section that its name says."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls._validated)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        sections = [metric_config(name).model_json_schema(by_alias=True) for name in METRICS]
        return {"anyOf": [{"enum": list(METRICS)}, *sections, OwnMetric.model_json_schema(by_alias=True)]}

    @staticmethod
    def _validated(value: Any) -> MetricConfig:
        if isinstance(value, MetricConfig):
            return value
        value = {"name": value} if isinstance(value, str) else value
        if not isinstance(value, dict):
            raise PydanticCustomError("metric", "expected a metric's name, or a mapping with its name and options")
        if "name" not in value:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'name'"})
        section = section_meant(value)
        if section is None:
            name = value["name"]
            known = did_you_mean(str(name), METRICS)
            message = f"no metric {name!r}{known} (one of your own is ./file.py:Class)"
            raise PydanticCustomError("metric", "{message}", {"message": message})
        return section.model_validate_json(json.dumps(value))  # strict, but a list may become a tuple


if TYPE_CHECKING:
    AnyMetric = MetricConfig
else:
    AnyMetric = Annotated[MetricConfig, _ByName]
