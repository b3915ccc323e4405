"""`validate:` when the validation split is evaluated."""

from typing import ClassVar

from pydantic import Field

from trainer.configs.section import Section


class ValidateConfig(Section):
    """When validation runs during training. There is always a validation at the end of training."""

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("every_epochs", "every_steps"),)

    every_epochs: int | None = Field(
        None, gt=0, description="Epochs between two validations; null: 1 epoch, unless every_steps is set."
    )
    every_steps: int | None = Field(
        None, gt=0, description="Optimizer steps between two validations; null: counted in epochs."
    )
    worst_items: int = Field(
        8,
        ge=0,
        le=64,
        description="Number of items with the worst scores that are shown after each validation; 0: none.",
    )
    test: bool = Field(
        True, description="Evaluate the test splits at the end of training; false: leave them for `trainer evaluate`."
    )
    batches: int | None = Field(
        None, gt=0, description="Maximum number of batches per validation during training; null: the whole split."
    )
