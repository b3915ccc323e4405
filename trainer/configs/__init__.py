"""Configurations: pydantic models of the YAML, read with the place of every value, checked in one pass."""

from trainer.configs.checkpoint import BestConfig, CheckpointConfig
from trainer.configs.data import DataConfig
from trainer.configs.gallery import RecipeIndex
from trainer.configs.load import Loaded, load, load_resolved
from trainer.configs.model import ModelConfig
from trainer.configs.numerics import NumericsConfig
from trainer.configs.optimizer import AdamConfig, AdamWConfig, OptimizerConfig, SgdConfig
from trainer.configs.problems import ConfigError, Place, Problem
from trainer.configs.resolved import dump_resolved
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
from trainer.configs.train import TrainConfig
from trainer.configs.validation import ValidateConfig

__all__ = [
    "AdamConfig",
    "AdamWConfig",
    "BestConfig",
    "CheckpointConfig",
    "ConfigError",
    "ConstantSchedule",
    "CosineSchedule",
    "DataConfig",
    "ExponentialSchedule",
    "LinearSchedule",
    "Loaded",
    "ModelConfig",
    "NoamSchedule",
    "NumericsConfig",
    "OneCycleSchedule",
    "OptimizerConfig",
    "OwnSchedule",
    "Place",
    "PlateauSchedule",
    "PolynomialSchedule",
    "Problem",
    "ProductSchedule",
    "RecipeIndex",
    "RunConfig",
    "Schedule",
    "ScheduleConfig",
    "Section",
    "SequenceSchedule",
    "SgdConfig",
    "Span",
    "StepSchedule",
    "Stretch",
    "TaskReference",
    "TrainConfig",
    "TriangularSchedule",
    "ValidateConfig",
    "dump_resolved",
    "every_schedule",
    "json_schema",
    "load",
    "load_resolved",
]
