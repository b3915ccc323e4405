"""`model:` what the network starts from."""

import re
from pathlib import Path

from pydantic import Field, field_validator

from trainer.configs.section import Section


class WeightsConfig(Section):
    """A file of weights for a network or a part of it: safetensors, PyTorch's .pt and .pth, NumPy's .npz, or a
    checkpoint or run directory of this program.
    """

    weights: Path | None = Field(
        None, description="The file to start from, relative to the file that says so; null: fresh weights."
    )
    entry: str | None = Field(
        None, description="What to take of the file: `ema` of a checkpoint, or a dictionary within a PyTorch file."
    )
    include: tuple[str, ...] = Field(("*",), description="Load only these names of the model (shell patterns).")
    exclude: tuple[str, ...] = Field((), description="Leave these names of the model as they are (shell patterns).")
    rename: dict[str, str] = Field(
        default_factory=dict,
        description="Regular expressions on the file's names and what stands in their place, in this order.",
    )
    strict: bool = Field(True, description="Whether names that don't fit are an error; else they are told of.")

    @field_validator("rename")
    @classmethod
    def _are_expressions(cls, rename: dict[str, str]) -> dict[str, str]:
        for pattern, replacement in rename.items():
            try:
                re.sub(pattern, replacement, "")
            except (re.error, IndexError) as error:
                raise ValueError(
                    f"{pattern!r} is no regular expression, or {replacement!r} doesn't fit it: {error}"
                ) from error
        return rename


class ModelConfig(WeightsConfig):
    """Initial state of the networks: of all of them from one file, of parts from others."""

    parts: dict[str, WeightsConfig] = Field(
        default_factory=dict,
        description="The same for parts of the model by name, such as `backbone`; after the whole.",
    )
