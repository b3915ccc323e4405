"""`validate:` when the validation split is evaluated."""

from typing import ClassVar

from pydantic import Field

from trainer.configs.section import Section


class ValidateConfig(Section):
    """Validation during training; at the end of training there always is one."""

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("every_epochs", "every_steps"),)

    every_epochs: int | None = Field(None, gt=0, description="Epochs between two validations; 1 without every_steps.")
    every_steps: int | None = Field(None, gt=0, description="Steps between two validations.")
    worst_items: int = Field(
        8, ge=0, le=64, description="Of each evaluation, so many items with the worst score are shown; 0: none."
    )
    batches: int | None = Field(None, gt=0, description="Validate so many batches during training; null: the split.")
