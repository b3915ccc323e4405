"""Configurations: pydantic models of the YAML, read with the place of every value, checked in one pass."""

from trainer.configs.checkpoint import BestConfig, CheckpointConfig
from trainer.configs.data import DataConfig
from trainer.configs.gallery import RecipeIndex
from trainer.configs.hooks import HookConfig
from trainer.configs.load import Loaded, config_from, load, load_resolved
from trainer.configs.metrics import MetricConfig, MetricsConfig, OwnMetric
from trainer.configs.model import ModelConfig
from trainer.configs.numerics import NumericsConfig
from trainer.configs.optimizer import (
    AdaGradConfig,
    AdamConfig,
    AdamWConfig,
    AdanConfig,
    LambConfig,
    LionConfig,
    MuonConfig,
    OptimizerConfig,
    OwnOptimizer,
    ParameterGroup,
    RmsPropConfig,
    SgdConfig,
)
from trainer.configs.problems import ConfigError, Place, Problem
from trainer.configs.resolved import dump_resolved
from trainer.configs.resuming import Change, changes, what_state_rests_on
from trainer.configs.run import RunConfig
from trainer.configs.schedules import (
    ConstantSchedule,
    CosineSchedule,
    ExponentialSchedule,
    LinearSchedule,
    NoamSchedule,
    OneCycleSchedule,
    OwnSchedule,
    PlateauSchedule,
    PolynomialSchedule,
    ProductSchedule,
    Schedule,
    ScheduleConfig,
    SequenceSchedule,
    Span,
    StepSchedule,
    Stretch,
    TriangularSchedule,
    every_schedule,
)
from trainer.configs.schema import json_schema
from trainer.configs.section import Section
from trainer.configs.task import TaskReference
from trainer.configs.train import EarlyStoppingConfig, EmaConfig, SpikeConfig, TrainConfig
from trainer.configs.transforms import TransformConfig, TransformsConfig
from trainer.configs.tuning import TuningConfig
from trainer.configs.validation import ValidateConfig

__all__ = [
    "AdaGradConfig",
    "AdamConfig",
    "AdamWConfig",
    "AdanConfig",
    "BestConfig",
    "Change",
    "CheckpointConfig",
    "ConfigError",
    "ConstantSchedule",
    "CosineSchedule",
    "DataConfig",
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
    "NumericsConfig",
    "OneCycleSchedule",
    "OptimizerConfig",
    "OwnMetric",
    "OwnOptimizer",
    "OwnSchedule",
    "ParameterGroup",
    "Place",
    "PlateauSchedule",
    "PolynomialSchedule",
    "Problem",
    "ProductSchedule",
    "RecipeIndex",
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
    "TaskReference",
    "TrainConfig",
    "TransformConfig",
    "TransformsConfig",
    "TriangularSchedule",
    "TuningConfig",
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
