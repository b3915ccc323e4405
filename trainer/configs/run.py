"""The whole configuration of a run, one field per section."""

import re
import warnings
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticKnownError

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
from trainer.configs.sweep import SweepConfig
from trainer.configs.train import EarlyStoppingConfig, TrainConfig
from trainer.configs.validation import ValidateConfig


def _constant() -> Schedule:
    from trainer.configs.schedules.decay import ConstantSchedule  # imported on first use: sections take time to declare

    return ConstantSchedule()


_DEVICE = r"^(cpu|cuda(:[0-9]+)?|reference)$"


def _device(name: Any) -> Any:
    if not isinstance(name, str) or re.fullmatch(_DEVICE, name) is None:
        raise PydanticKnownError("literal_error", {"expected": "'cpu', 'cuda', 'cuda:N' or 'reference'"})
    return name


Device = Annotated[str, BeforeValidator(_device), WithJsonSchema({"type": "string", "pattern": _DEVICE})]


with warnings.catch_warnings():
    # The section is called `validate` in YAML and in Python; pydantic's method of that name is deprecated and unused.
    warnings.filterwarnings("ignore", message='Field name "validate"')

    class RunConfig(Section):
        """The complete configuration of a run."""

        exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("optimizer", "optimizers"),)

        task: str = Field(
            min_length=1,
            description="What to train: a recipe's name, or a task class as ./file.py:Class, relative to the "
            "YAML file that sets it.",
        )
        extends: str | None = Field(
            None,
            description="Base configuration: a recipe's name or another YAML file. Its values apply wherever "
            "this file sets none; null: no base.",
        )
        name: str | None = Field(
            None,
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
            description="Name of the run directory; null: derived from the task.",
        )
        seed: int = Field(
            0, ge=0, lt=2**63, description="Seed of initial weights, data order and all other random numbers."
        )
        device: Device = Field(
            "cpu",
            description="Where the run computes. cpu: compiled kernels; cuda: the first NVIDIA GPU, cuda:1 the second "
            "(docs/gpu.md says what has kernels); reference: plain NumPy, slow, to tell an error in the model from an "
            "error in the kernels.",
        )
        threads: int | None = Field(
            None,
            gt=0,
            le=1024,
            description="Number of threads of the cpu device; null: one per physical core that the process may use "
            "(affinity and control group).",
        )
        numerics: NumericsConfig = Field(default_factory=NumericsConfig)
        autotune: AutotuneConfig = Field(default_factory=AutotuneConfig)
        options: dict[str, Any] = Field(
            default_factory=dict, description="Options of the task; each recipe documents its own."
        )
        data: DataConfig = Field(default_factory=DataConfig)
        model: ModelConfig = Field(default_factory=ModelConfig)
        optimizer: OptimizerConfig | None = Field(
            None, description="Optimizer, for tasks with one optimizer; null: `optimizers` is used."
        )
        optimizers: dict[str, OptimizerConfig] | None = Field(
            None,
            min_length=1,
            description="Optimizers by name, for tasks with several, such as `generator` and `discriminator`; "
            "null: `optimizer` is used.",
        )
        schedule: ScheduleConfig = Field(
            default_factory=_constant,
            description="Learning-rate schedule of every optimizer without a schedule of its own.",
        )
        train: TrainConfig = Field(default_factory=TrainConfig)
        metrics: MetricsConfig = Field(default_factory=MetricsConfig)
        validate: ValidateConfig = Field(default_factory=ValidateConfig)  # type: ignore[assignment]
        checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
        early_stopping: EarlyStoppingConfig | None = Field(
            None, description="Stop training when a metric has stopped improving; null: train to the end."
        )
        sweep: SweepConfig | None = Field(
            None, description="Search for good values with `trainer sweep`; `trainer run` ignores it. null: none."
        )
        sinks: tuple[SinkConfig, ...] = Field(
            (), description="Other tools that receive the metrics of the run, such as TensorBoard."
        )
        hooks: tuple[HookConfig, ...] = Field((), description="Custom code that runs at certain points of training.")

        def all_optimizers(self) -> dict[str, OptimizerConfig]:
            """Every optimizer by name; the one of `optimizer:` has the name "optimizer"."""
            if self.optimizers is not None:
                return dict(self.optimizers)
            return {} if self.optimizer is None else {"optimizer": self.optimizer}
