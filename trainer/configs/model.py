"""`model:` initial weights of the networks, and the normalization of their images."""

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator

from trainer.configs.section import Section

REMOTE = r"^(https://[^/\s]+/[^\s?]+\.safetensors(\?\S*)?|hf:[\w.-]+/[\w.-]+@[^/\s@]+/\S+\.safetensors)$"
"""Pattern of weights to download: an address, or a file of a model on the Hugging Face Hub."""

Remote = Annotated[str, Field(pattern=REMOTE)]
Positive = Annotated[float, Field(gt=0)]


class NormalizationConfig(Section):
    """Normalization of a network's images: (image - mean) / std, for channel values from 0 to 1."""

    mean: tuple[float, ...] = Field(
        min_length=1,
        max_length=3,
        description="Mean to subtract, of values from 0 to 1: one number, or one per channel.",
    )
    std: tuple[Positive, ...] = Field(
        min_length=1,
        max_length=3,
        description="Standard deviation to divide by, of values from 0 to 1: one number, or one per channel.",
    )


class WeightsConfig(Section):
    """Loads weights for a network or a part of it from a run, a checkpoint, an exported model, or a file: safetensors,
    PyTorch's .pt and .pth, NumPy's .npz; or downloads a safetensors file.
    """

    weights: Remote | Path | None = Field(
        None,
        union_mode="left_to_right",
        description="Run directory, checkpoint, exported model or weights file, relative to the YAML file that sets "
        "it; or a safetensors file to download: https://… or hf:OWNER/REPO@REVISION/FILE. null: random initialization.",
    )
    sha256: str | None = Field(
        None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the weights file, in hexadecimal; another file is an error. null: not checked; "
        "recorded in the resolved config after a download.",
    )
    license: str | None = Field(
        None, description="License of the weights, for information; null: unknown, or recorded after a download."
    )
    entry: str | None = Field(
        None,
        description="Which weights of the file to load: for a run or checkpoint `model` (as trained) or `ema` "
        "(averaged); for a PyTorch file a key of its dictionary. null: of a run those that `trainer predict` uses.",
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
        description="Whether missing, unknown or differently shaped parameters outside of the task's head are an "
        "error; false: a warning lists them.",
    )

    @field_validator("weights")
    @classmethod
    def _is_safetensors(cls, weights: str | Path | None) -> str | Path | None:
        if isinstance(weights, Path) and re.match(r"[a-z0-9]{2,}:", str(weights)):
            address = re.sub(":/(?!/)", "://", str(weights), count=1)
            raise ValueError(
                f"expected https://…/FILE.safetensors or hf:OWNER/REPO@REVISION/FILE.safetensors, found {address}; "
                "other formats are not downloaded"
            )
        return weights

    def recorded(self, earlier: "WeightsConfig") -> Self:
        """The section with null `sha256` and `license` filled in from `earlier`, if both have the same weights."""
        if earlier.weights != self.weights:
            return self
        facts = {name: getattr(self, name) or getattr(earlier, name) for name in ("sha256", "license")}
        return self.model_copy(update=facts)

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
    normalization: NormalizationConfig | None = Field(
        None,
        description="Normalization of the network's images; null: that of the weights if they have one, otherwise the "
        "task's. The resolved config has the values that are used.",
    )

    def with_records_of(self, earlier: Self) -> Self:
        """The section with null hashes, licenses and normalization filled in from an earlier resolved config."""
        parts = {
            part: section.recorded(earlier.parts[part]) if part in earlier.parts else section
            for part, section in self.parts.items()
        }
        normalization = self.normalization or earlier.normalization
        return self.recorded(earlier).model_copy(update={"parts": parts, "normalization": normalization})

    def sources(self) -> dict[str, WeightsConfig]:
        """The sections that load weights, by part; "" is the whole model."""
        sections: dict[str, WeightsConfig] = {"": self, **self.parts}
        return {part: section for part, section in sections.items() if section.weights is not None}
