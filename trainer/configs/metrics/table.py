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
    "balanced_accuracy": "agreement:BalancedAccuracyConfig",
    "bleu": "texts:BleuConfig",
    "boundary_f": "segments:BoundaryFConfig",
    "calibration_error": "correlation:CalibrationErrorConfig",
    "cer": "texts:CerConfig",
    "coco": "detection:CocoConfig",
    "confusion_matrix": "classification:ConfusionMatrixConfig",
    "dice": "classification:DiceConfig",
    "f1": "classification:F1Config",
    "f_beta": "classification:FBetaConfig",
    "frechet": "similarity:FrechetConfig",
    "hamming": "agreement:HammingConfig",
    "gradient_norm": "numbers:GradientNormConfig",
    "iou": "classification:IoUConfig",
    "kappa": "agreement:KappaConfig",
    "log_loss": "classification:LogLossConfig",
    "matthews": "agreement:MatthewsConfig",
    "mean_absolute_error": "numbers:MeanAbsoluteErrorConfig",
    "mean_iou": "classification:MeanIoUConfig",
    "mean_squared_error": "numbers:MeanSquaredErrorConfig",
    "ms_ssim": "similarity:MsSsimConfig",
    "panoptic_quality": "segments:PanopticQualityConfig",
    "pearson": "correlation:PearsonConfig",
    "perplexity": "classification:PerplexityConfig",
    "pixel_accuracy": "classification:PixelAccuracyConfig",
    "precision": "classification:PrecisionConfig",
    "precision_recall_curve": "ranking:PrecisionRecallCurveConfig",
    "psnr": "numbers:PsnrConfig",
    "r2": "correlation:R2Config",
    "recall": "classification:RecallConfig",
    "roc_auc": "ranking:RocAucConfig",
    "roc_curve": "ranking:RocCurveConfig",
    "root_mean_squared_error": "numbers:RootMeanSquaredErrorConfig",
    "rouge_l": "texts:RougeLConfig",
    "spearman": "correlation:SpearmanConfig",
    "specificity": "classification:SpecificityConfig",
    "ssim": "numbers:SsimConfig",
    "top_k": "classification:TopKConfig",
    "wer": "texts:WerConfig",
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


def _in_one_piece(schema: dict[str, Any]) -> dict[str, Any]:
    """A section's JSON Schema with the sections inside it in their places, so that it can stand anywhere."""
    definitions = schema.pop("$defs", {})

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(item) for item in value]
        if not isinstance(value, dict):
            return value
        inner = definitions.get(str(value.get("$ref", "")).removeprefix("#/$defs/"), {})
        return {key: whole(item) for key, item in {**value, **inner}.items() if key != "$ref"}

    found: dict[str, Any] = whole(schema)
    return found


class _ByName:
    """Validates an entry with the section that its name says."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls._validated)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        sections = [_in_one_piece(metric_config(name).model_json_schema(by_alias=True)) for name in METRICS]
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
