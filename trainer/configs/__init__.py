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
from trainer.configs.schedule import ConstantSchedule, CosineSchedule, ScheduleConfig, StepSchedule
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
    "Loaded",
    "ModelConfig",
    "NumericsConfig",
    "OptimizerConfig",
    "Place",
    "Problem",
    "RecipeIndex",
    "RunConfig",
    "ScheduleConfig",
    "Section",
    "SgdConfig",
    "StepSchedule",
    "TaskReference",
    "TrainConfig",
    "ValidateConfig",
    "dump_resolved",
    "json_schema",
    "load",
    "load_resolved",
]
