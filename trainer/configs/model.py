"""`model:` what the network starts from."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from trainer.configs.section import Section


class ModelConfig(Section):
    """Initial state of the networks."""

    weights: Path | None = Field(
        None,
        description="Weights to start from (safetensors), relative to the file that says so; null: fresh ones.",
    )
