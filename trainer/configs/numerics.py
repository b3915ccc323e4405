"""`numerics:` how exactly results can be reproduced."""

from typing import Literal

from pydantic import Field

from trainer.configs.section import Section


class NumericsConfig(Section):
    """The numerics of the run: whether faster algorithms that round differently are allowed."""

    class_: Literal["exact", "fast"] = Field(
        "exact",
        alias="class",
        description="exact: sums in one fixed order; fast: Winograd's algorithm for 3x3 convolutions and their "
        "gradients, which rounds differently; on GPUs tensor cores, which round float32 to TF32. Each gives the same "
        "bits with any number of threads, tiles and layouts.",
    )
    bfloat16: Literal["pairs", "tiles"] = Field(
        "pairs",
        description="How products of bfloat16 are summed. pairs: in the same order on every processor; tiles: with "
        "AMX, which is faster, sums in another order and needs a processor with AMX.",
    )
