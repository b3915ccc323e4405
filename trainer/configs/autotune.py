"""`autotune:` how kernels are chosen beyond the cost model. Affects speed, never results."""

from typing import Literal

from pydantic import Field

from trainer.configs.section import Section


class AutotuneConfig(Section):
    """Measures candidate kernels and keeps the fastest. Results are the same, bit for bit, in every mode."""

    mode: Literal["background", "upfront", "cached", "off"] = Field(
        "background",
        description="When candidate kernels are measured. background: while training runs; upfront: before the first "
        "step; cached: never, but earlier measurements are used; off: never, and the cost model alone decides.",
    )
    share: float = Field(
        0.05,
        gt=0,
        le=1,
        description="Maximum processor time for measuring candidate kernels, as a fraction of wall time; 1: one "
        "full processor.",
    )
