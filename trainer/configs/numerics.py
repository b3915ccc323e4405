"""`numerics:` how exactly results are reproduced."""

from typing import Literal

from pydantic import Field

from trainer.configs.section import Section


class NumericsConfig(Section):
    """The numerics classes of the run."""

    class_: Literal["exact", "fast"] = Field(
        "exact",
        alias="class",
        description="exact: one order of sums; fast: Winograd's algorithm for 3x3 convolutions and their gradients, "
        "with other rounding. "
        "Either gives the same bits with any number of threads, tiles and layouts.",
    )
    bfloat16: Literal["pairs", "tiles"] = Field(
        "pairs",
        description="How products of bfloat16 are summed. pairs: in one order on every processor; tiles: by AMX's "
        "registers, in another order, only on processors that have them.",
    )
