"""What can be set under `options:` of config.yaml. A wrong key or value there is reported with its line."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Section


class Options(Section):
    """Options of the task."""

    width: int = Field(16, gt=0, description="Channels of the first convolution; each further one has twice as many.")
