"""`autotune:` how kernels are chosen beyond the cost model. It decides time, never results."""

from typing import Literal

from pydantic import Field

from trainer.configs.section import Section


class AutotuneConfig(Section):
    """When candidates of the kernels are measured; results have the same bits in every mode."""

    mode: Literal["background", "upfront", "cached", "off"] = Field(
        "background",
        description="background: beside the training; upfront: before the first step; cached: only what was measured "
        "before; off: the cost model alone.",
    )
    share: float = Field(
        0.05, gt=0, le=1, description="Processor time that trying candidates may take, as a share of wall time."
    )
