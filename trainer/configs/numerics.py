"""`numerics:` how exactly results are reproduced."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainer.configs.section import Section


class NumericsConfig(Section):
    """The numerics class of the run."""

    class_: Literal["exact"] = Field(
        "exact", alias="class", description="exact: the same bits with any number of threads, tiles and layouts."
    )
