"""The `options:` of the adding recipe, and what the task requires and returns."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    length: int = Field(200, ge=2, le=10_000, description="Number of steps of each sequence.")
    units: int = Field(100, gt=0, description="Number of units of the recurrent network.")
    sequences: int = Field(50_000, gt=0, description="Number of training sequences.")
    held_out: int = Field(2_000, gt=0, description="Number of validation sequences, and of test sequences.")


DECLARATION = Declaration(
    reads=False,
    train=Returns(("loss",)),
    valid=Returns(("loss",), {"sums": ("predicted", "target")}),
)
