"""`validate:` when the validation split is evaluated."""

from __future__ import annotations

from pydantic import Field

from trainer.configs.section import Section


class ValidateConfig(Section):
    """Validation during training; the last epoch is always validated."""

    every_epochs: int = Field(1, gt=0)
