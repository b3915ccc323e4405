"""`checkpoint:` when the state is written, and which states are kept."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainer.configs.section import Section


class BestConfig(Section):
    """The metric whose best checkpoint is kept whatever its age."""

    metric: str = Field(pattern=r"^[^/\s]+/\S+$", description="Split and name, such as valid/accuracy.")
    mode: Literal["max", "min"] = Field(description="Which end of the metric is better.")


class CheckpointConfig(Section):
    """Checkpoints at the end of epochs; the end of the run always writes one."""

    every_epochs: int = Field(1, gt=0)
    keep_last: int = Field(2, gt=0, description="How many of the latest to keep.")
    best: BestConfig | None = Field(None, description="Keep the best by one metric, too; null: the latest only.")
