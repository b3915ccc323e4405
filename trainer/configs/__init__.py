"""Configurations: pydantic models of the YAML, read with the position of every value and checked in one pass."""

import importlib
from typing import TYPE_CHECKING, Any

from trainer.configs.autotune import AutotuneConfig
from trainer.configs.checkpoint import BestConfig, CheckpointConfig
from trainer.configs.data import DataConfig
from trainer.configs.declaration import Declaration, Returns
from trainer.configs.gallery import RecipeIndex
from trainer.configs.hooks import HookConfig
from trainer.configs.load import Loaded, config_from, load, load_resolved
from trainer.configs.metrics import MetricConfig, MetricsConfig, OwnMetric
from trainer.configs.model import ModelConfig, NormalizationConfig
from trainer.configs.numerics import NumericsConfig
from trainer.configs.optimizers import OptimizerConfig, OwnOptimizer, ParameterGroup
from trainer.configs.problems import ConfigError, Place, Problem
from trainer.configs.resolved_config import dump_resolved
from trainer.configs.resuming import Change, changes, what_state_rests_on
from trainer.configs.run import RunConfig
from trainer.configs.schedules import OwnSchedule, Schedule, ScheduleConfig, Span, Stretch, every_schedule
from trainer.configs.schema import json_schema
from trainer.configs.section import Section
from trainer.configs.sweep import ParameterConfig, SweepConfig
from trainer.configs.task import TaskReference
from trainer.configs.train import EarlyStoppingConfig, EmaConfig, SpikeConfig, TrainConfig
from trainer.configs.transforms import TransformConfig, TransformsConfig
from trainer.configs.validation import ValidateConfig

if TYPE_CHECKING:
    from trainer.configs.optimizers.adaptive import (
        AdaGradConfig,
        AdamConfig,
        AdamWConfig,
        AdanConfig,
        LambConfig,
        RmsPropConfig,
    )
    from trainer.configs.optimizers.momentum import LionConfig, MuonConfig, SgdConfig
    from trainer.configs.schedules.composite import ProductSchedule, SequenceSchedule
    from trainer.configs.schedules.decay import (
        ConstantSchedule,
        ExponentialSchedule,
        LinearSchedule,
        PolynomialSchedule,
        StepSchedule,
    )
    from trainer.configs.schedules.plateau import PlateauSchedule
    from trainer.configs.schedules.waves import CosineSchedule, NoamSchedule, OneCycleSchedule, TriangularSchedule

_LATE = {
    "AdaGradConfig": "optimizers.adaptive",
    "AdamConfig": "optimizers.adaptive",
    "AdamWConfig": "optimizers.adaptive",
    "AdanConfig": "optimizers.adaptive",
    "LambConfig": "optimizers.adaptive",
    "RmsPropConfig": "optimizers.adaptive",
    "LionConfig": "optimizers.momentum",
    "MuonConfig": "optimizers.momentum",
    "SgdConfig": "optimizers.momentum",
    "ProductSchedule": "schedules.composite",
    "SequenceSchedule": "schedules.composite",
    "ConstantSchedule": "schedules.decay",
    "ExponentialSchedule": "schedules.decay",
    "LinearSchedule": "schedules.decay",
    "PolynomialSchedule": "schedules.decay",
    "StepSchedule": "schedules.decay",
    "PlateauSchedule": "schedules.plateau",
    "CosineSchedule": "schedules.waves",
    "NoamSchedule": "schedules.waves",
    "OneCycleSchedule": "schedules.waves",
    "TriangularSchedule": "schedules.waves",
}
"""Sections that are imported on first use, which keeps the import fast: by name, the file of each."""

__all__ = [
    "AdaGradConfig",
    "AdamConfig",
    "AdamWConfig",
    "AdanConfig",
    "AutotuneConfig",
    "BestConfig",
    "Change",
    "CheckpointConfig",
    "ConfigError",
    "ConstantSchedule",
    "CosineSchedule",
    "DataConfig",
    "Declaration",
    "EarlyStoppingConfig",
    "EmaConfig",
    "ExponentialSchedule",
    "HookConfig",
    "LambConfig",
    "LinearSchedule",
    "LionConfig",
    "Loaded",
    "MetricConfig",
    "MetricsConfig",
    "ModelConfig",
    "MuonConfig",
    "NoamSchedule",
    "NormalizationConfig",
    "NumericsConfig",
    "OneCycleSchedule",
    "OptimizerConfig",
    "OwnMetric",
    "OwnOptimizer",
    "OwnSchedule",
    "ParameterConfig",
    "ParameterGroup",
    "Place",
    "PlateauSchedule",
    "PolynomialSchedule",
    "Problem",
    "ProductSchedule",
    "RecipeIndex",
    "Returns",
    "RmsPropConfig",
    "RunConfig",
    "Schedule",
    "ScheduleConfig",
    "Section",
    "SequenceSchedule",
    "SgdConfig",
    "Span",
    "SpikeConfig",
    "StepSchedule",
    "Stretch",
    "SweepConfig",
    "TaskReference",
    "TrainConfig",
    "TransformConfig",
    "TransformsConfig",
    "TriangularSchedule",
    "ValidateConfig",
    "changes",
    "config_from",
    "dump_resolved",
    "every_schedule",
    "json_schema",
    "load",
    "load_resolved",
    "what_state_rests_on",
]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
