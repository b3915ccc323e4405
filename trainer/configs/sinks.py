"""`sinks:` other tools that are told of a run."""

from typing import Any

from pydantic import Field, model_validator

from trainer.configs.section import Section


class SinkConfig(Section):
    """A tool that is told what the events tell, by a process beside the training."""

    name: str = Field(
        min_length=1,
        description="csv, tensorboard, wandb or mlflow, or a name that another package has under trainer.sinks.",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="What it is made with.")

    @model_validator(mode="before")
    @classmethod
    def _by_name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value
