"""`sinks:` other tools that receive the metrics of a run."""

from typing import Any

from pydantic import Field, model_validator

from trainer.configs.section import Section


class SinkConfig(Section):
    """A tool that receives the events of the run, in a separate process."""

    name: str = Field(
        min_length=1,
        description="Name of the tool: csv, tensorboard, wandb, mlflow, or an entry point that another package "
        "registers under trainer.sinks.",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the sink's constructor.")

    @model_validator(mode="before")
    @classmethod
    def _by_name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value
