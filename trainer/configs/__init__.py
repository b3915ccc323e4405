"""Configurations: pydantic models of the YAML, read with the position of every value and checked in one pass."""

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

__all__ = [
    "AutotuneConfig",
    "BestConfig",
    "Change",
    "CheckpointConfig",
    "ConfigError",
    "DataConfig",
    "Declaration",
    "EarlyStoppingConfig",
    "EmaConfig",
    "HookConfig",
    "Loaded",
    "MetricConfig",
    "MetricsConfig",
    "ModelConfig",
    "NormalizationConfig",
    "NumericsConfig",
    "OptimizerConfig",
    "OwnMetric",
    "OwnOptimizer",
    "OwnSchedule",
    "ParameterConfig",
    "ParameterGroup",
    "Place",
    "Problem",
    "RecipeIndex",
    "Returns",
    "RunConfig",
    "Schedule",
    "ScheduleConfig",
    "Section",
    "Span",
    "SpikeConfig",
    "Stretch",
    "SweepConfig",
    "TaskReference",
    "TrainConfig",
    "TransformConfig",
    "TransformsConfig",
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
