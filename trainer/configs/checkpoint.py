"""`checkpoint:` when the state is written, and which states are kept."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.section import Section


class BestConfig(Section):
    """The metric whose best checkpoint is kept whatever its age."""

    metric: str = Field(pattern=r"^[^/\s]+/\S+$", description="Split and name, such as valid/accuracy.")
    mode: Literal["max", "min"] = Field(description="Which end of the metric is better.")


class CheckpointConfig(Section):
    """Checkpoints at the end of epochs or every so many steps; the end of the run always writes one."""

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("every_epochs", "every_steps"),)

    every_epochs: int | None = Field(None, gt=0, description="Epochs between two checkpoints; 1 without every_steps.")
    every_steps: int | None = Field(None, gt=0, description="Steps between two checkpoints.")
    keep_last: int = Field(2, gt=0, description="How many of the latest to keep.")
    best: BestConfig | None = Field(None, description="Keep the best by one metric, too; null: the latest only.")
