"""The metrics by name."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError

from trainer.configs.choice import OWN_TAG, Choice
from trainer.configs.metrics.metric import MetricConfig
from trainer.configs.problems import did_you_mean
from trainer.configs.section import Section

METRICS: Mapping[str, str] = {
    "accuracy": "classification:AccuracyConfig",
    "average_precision": "ranking:AveragePrecisionConfig",
    "balanced_accuracy": "agreement:BalancedAccuracyConfig",
    "bits_per_character": "classification:BitsPerCharacterConfig",
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
"""Maps each metric's name to its section, as file:Class in this folder."""


def metric_config(name: str) -> type[MetricConfig]:
    """The section class of a metric by its name.

    Raises:
        KeyError: unknown metric.
    """
    file, _, class_name = METRICS[name].partition(":")
    section: type[MetricConfig] = getattr(importlib.import_module(f"trainer.configs.metrics.{file}"), class_name)
    return section


def _in_one_piece(schema: dict[str, Any]) -> dict[str, Any]:
    """A section's JSON Schema with nested definitions inlined, so that it is valid anywhere."""
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


class _MetricChoice(Choice):
    """Expands a single word to the metric of that name."""

    def validated(self, value: Any, info: ValidationInfo) -> Section:
        value = {"name": value} if isinstance(value, str) else value
        if not isinstance(value, dict | MetricConfig):
            raise PydanticCustomError("metric", "expected a metric's name, or a mapping with its name and options")
        if isinstance(value, MetricConfig) or "name" not in value:
            return super().validated(value, info)
        section = self.selected(value)
        if section is None:
            name = value["name"]
            known = did_you_mean(str(name), METRICS)
            message = f"no metric {name!r}{known} (a custom metric is ./file.py:Class)"
            raise PydanticCustomError("metric", "{message}", {"message": message})
        return section.model_validate_json(json.dumps(value))  # plain values from Python are validated like YAML

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        sections = [_in_one_piece(self.section(name).model_json_schema(by_alias=True)) for name in self.table]
        return {"anyOf": [{"enum": list(METRICS)}, *sections]}


if TYPE_CHECKING:
    AnyMetric = MetricConfig
else:
    AnyMetric = Annotated[MetricConfig, _MetricChoice(MetricConfig, {**METRICS, OWN_TAG: "metric:OwnMetric"})]
