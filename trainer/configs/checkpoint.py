"""`checkpoint:` when checkpoints are written and which are kept."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.section import Section


class BestConfig(Section):
    """Keeps the best checkpoints by one metric, whatever their age. The best one is evaluated on the test split."""

    metric: str = Field(
        pattern=r"^[^/\s]+/\S+$",
        description="Metric that decides which checkpoints are best, as split/name, such as valid/accuracy.",
    )
    mode: Literal["max", "min"] = Field(
        description="Whether the largest (max) or the smallest (min) value of the metric is best."
    )
    keep: int = Field(1, gt=0, description="Number of best checkpoints to keep.")


class CheckpointConfig(Section):
    """Writes checkpoints at regular intervals, and always one at the end of the run."""

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("every_epochs", "every_steps"),)

    every_epochs: int | None = Field(
        None,
        gt=0,
        description="Epochs between two checkpoints; null: 1 epoch, unless every_steps or every_minutes is set.",
    )
    every_steps: int | None = Field(
        None, gt=0, description="Optimizer steps between two checkpoints; null: not counted in steps."
    )
    every_minutes: float | None = Field(
        None,
        gt=0,
        description="Minutes between two checkpoints, on its own or in addition to every_epochs or every_steps; "
        "null: not timed.",
    )
    keep_last: int = Field(2, gt=0, description="Number of most recent checkpoints to keep.")
    keep_every: int | None = Field(
        None, gt=0, description="Keep every n-th checkpoint permanently, in addition to keep_last and best; null: none."
    )
    best: BestConfig | None = Field(
        None,
        description="Keep the best checkpoints by one metric, in addition to the most recent ones; null: the most "
        "recent ones only.",
    )
    on_error: Literal["stop", "warn"] = Field(
        "stop",
        description="What happens when a checkpoint can't be written (disk full, say). stop: the run ends with "
        "an error; warn: the run continues. Earlier checkpoints are kept in both cases.",
    )
