"""The whole configuration of a run: one field a section."""

import warnings
from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.autotune import AutotuneConfig
from trainer.configs.checkpoint import CheckpointConfig
from trainer.configs.data import DataConfig
from trainer.configs.hooks import HookConfig
from trainer.configs.metrics import MetricsConfig
from trainer.configs.model import ModelConfig
from trainer.configs.numerics import NumericsConfig
from trainer.configs.optimizers import OptimizerConfig
from trainer.configs.schedules import Schedule, ScheduleConfig
from trainer.configs.section import Section
from trainer.configs.sinks import SinkConfig
from trainer.configs.train import EarlyStoppingConfig, TrainConfig
from trainer.configs.validation import ValidateConfig


def _constant() -> Schedule:
    from trainer.configs.schedules.decay import ConstantSchedule  # where it is wanted: sections take time to declare

    return ConstantSchedule()


with warnings.catch_warnings():
    # The section is called `validate` in YAML and in Python; pydantic's method of that name is deprecated and unused.
    warnings.filterwarnings("ignore", message='Field name "validate"')

    class RunConfig(Section):
        """Everything that decides a run."""

        exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("optimizer", "optimizers"),)

        task: str = Field(
            min_length=1, description="A recipe's name, or ./file.py:Class relative to the file that says so."
        )
        extends: str | None = Field(
            None, description="A recipe's name or another YAML file: what it sets holds where this file says nothing."
        )
        name: str | None = Field(
            None,
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
            description="Name of the run's directory; null: made from the task.",
        )
        seed: int = Field(0, ge=0, lt=2**63, description="Decides initial values, the order of data, all randomness.")
        device: Literal["cpu", "reference"] = Field(
            "cpu", description="cpu: compiled kernels; reference: plain NumPy, slow, to tell a modelling bug from ours."
        )
        threads: int | None = Field(
            None, gt=0, le=1024, description="Threads of the cpu device; null: all that are available."
        )
        numerics: NumericsConfig = Field(default_factory=NumericsConfig)
        autotune: AutotuneConfig = Field(default_factory=AutotuneConfig)
        options: dict[str, Any] = Field(default_factory=dict, description="The task's own options.")
        data: DataConfig = Field(default_factory=DataConfig)
        model: ModelConfig = Field(default_factory=ModelConfig)
        optimizer: OptimizerConfig | None = Field(None, description="The optimizer of a task that has one.")
        optimizers: dict[str, OptimizerConfig] | None = Field(
            None, min_length=1, description="Optimizers by the names that the task gives them."
        )
        schedule: ScheduleConfig = Field(
            default_factory=_constant,
            description="The learning rate over the run, for every optimizer without one of its own.",
        )
        train: TrainConfig = Field(default_factory=TrainConfig)
        metrics: MetricsConfig = Field(default_factory=MetricsConfig)
        validate: ValidateConfig = Field(default_factory=ValidateConfig)  # type: ignore[assignment]
        checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
        early_stopping: EarlyStoppingConfig | None = Field(
            None, description="End training when a metric has stopped improving."
        )
        sinks: tuple[SinkConfig, ...] = Field((), description="Other tools that are told of the run, by name.")
        hooks: tuple[HookConfig, ...] = Field((), description="Code of one's own at moments of the training.")

        def all_optimizers(self) -> dict[str, OptimizerConfig]:
            """Every optimizer by name; the only one of `optimizer:` is called "optimizer"."""
            if self.optimizers is not None:
                return dict(self.optimizers)
            return {} if self.optimizer is None else {"optimizer": self.optimizer}
