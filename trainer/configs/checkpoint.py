"""`checkpoint:` when the state is written, and which states are kept."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.section import Section


class BestConfig(Section):
    """The metric whose best checkpoints are kept whatever their age; the very best is what is tested."""

    metric: str = Field(pattern=r"^[^/\s]+/\S+$", description="Split and name, such as valid/accuracy.")
    mode: Literal["max", "min"] = Field(description="Which end of the metric is better.")
    keep: int = Field(1, gt=0, description="How many of the best to keep.")


class CheckpointConfig(Section):
    """Checkpoints at the end of epochs, every so many steps or minutes; the end of the run always writes one."""

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("every_epochs", "every_steps"),)

    every_epochs: int | None = Field(
        None, gt=0, description="Epochs between two checkpoints; 1 without every_steps and every_minutes."
    )
    every_steps: int | None = Field(None, gt=0, description="Steps between two checkpoints.")
    every_minutes: float | None = Field(
        None,
        gt=0,
        description="Minutes after the latest checkpoint at which another is due, beside the others or alone.",
    )
    keep_last: int = Field(2, gt=0, description="How many of the latest to keep.")
    keep_every: int | None = Field(None, gt=0, description="Keep each so-manyth checkpoint for good, too.")
    best: BestConfig | None = Field(None, description="Keep the best by one metric, too; null: the latest only.")
    on_error: Literal["stop", "warn"] = Field(
        "stop", description="What a checkpoint that can't be written does to the run; those before it are kept."
    )
