"""The `options:` of config.yaml. Unknown keys and invalid values are reported with their line."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Section


class Options(Section):
    """Options of the task."""

    width: int = Field(
        16, gt=0, description="Number of channels of the first convolution; each following one has twice as many."
    )
