"""`train:` how long, and what happens in between."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from trainer.configs.section import Section


class TrainConfig(Section):
    """The training loop; one of `epochs` and `steps` says how long it runs."""

    exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("epochs", "steps"),)

    epochs: int | None = Field(None, gt=0, description="Passes over the training split.")
    steps: int | None = Field(None, gt=0, description="Optimizer steps, over as many epochs as they take.")
    log_every_steps: int = Field(10, gt=0, description="Steps between two training records.")
    gradient_clip_norm: float | None = Field(
        None, gt=0, description="Largest norm of all gradients together; null: no clipping."
    )
    gradient_clip_value: float | None = Field(
        None, gt=0, description="Largest size of each number of a gradient, before the norm; null: no clipping."
    )
