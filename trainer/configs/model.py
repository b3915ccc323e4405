"""`model:` initial weights of the networks."""

import re
from pathlib import Path

from pydantic import Field, field_validator

from trainer.configs.section import Section


class WeightsConfig(Section):
    """Loads weights for a network or a part of it from a file: safetensors, PyTorch's .pt and .pth, NumPy's .npz, or a
    checkpoint or run directory of trainer.
    """

    weights: Path | None = Field(
        None,
        description="Weights file, checkpoint or run directory, relative to the YAML file that sets it; null: "
        "random initialization.",
    )
    entry: str | None = Field(
        None,
        description="Which weights of the file to load: `ema` for a checkpoint's averaged weights, or a key of a "
        "PyTorch file's dictionary; null: the weights as trained.",
    )
    include: tuple[str, ...] = Field(
        ("*",), description="Shell patterns of the model's parameter names to load; others keep their initial values."
    )
    exclude: tuple[str, ...] = Field(
        (),
        description="Shell patterns of the model's parameter names that are not loaded and keep their initial values.",
    )
    rename: dict[str, str] = Field(
        default_factory=dict,
        description="Regular expressions on the file's parameter names and their replacements, applied in this order.",
    )
    strict: bool = Field(
        True,
        description="Whether missing, unknown or differently shaped parameters are an error; false: a warning lists "
        "them.",
    )

    @field_validator("rename")
    @classmethod
    def _are_expressions(cls, rename: dict[str, str]) -> dict[str, str]:
        for pattern, replacement in rename.items():
            try:
                re.sub(pattern, replacement, "")
            except (re.error, IndexError) as error:
                raise ValueError(
                    f"{pattern!r} is not a regular expression, or the replacement {replacement!r} doesn't match its "
                    f"groups: {error}"
                ) from error
        return rename


class ModelConfig(WeightsConfig):
    """Initial weights of the networks: all of them from one file, or parts from different files."""

    parts: dict[str, WeightsConfig] = Field(
        default_factory=dict,
        description="Initial weights of parts of the model, by name, such as `backbone`; loaded after `weights` of "
        "the whole model.",
    )
