"""Metrics of generated images."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.custom_class import PATTERN
from trainer.configs.metrics.metric import OF_NUMBERS, MetricConfig
from trainer.configs.section import Section


class MsSsimConfig(MetricConfig):
    """Multi-scale structural similarity (MS-SSIM) at five scales (Wang, Simoncelli and Bovik 2003)."""

    code: ClassVar[str] = "ms_ssim:MsSsim"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["ms_ssim"]
    data_range: float = Field(
        1.0,
        gt=0,
        description="Data range: maximum minus minimum possible pixel value. 1 for values from 0 to 1, 2 for -1 to "
        "1, 255 for bytes.",
    )


class FeaturesConfig(Section):
    """A custom module that computes features [B, D] of images [B, C, H, W]."""

    name: str = Field(
        pattern=PATTERN, description="Module class, as ./file.py:Class, relative to the YAML file that sets it."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the module's constructor.")
    weights: Path | None = Field(
        None, description="Safetensors file with the module's state dictionary; null: the module's own initial weights."
    )

    @staticmethod
    def matches(value: dict[str, Any]) -> bool:
        """Always true: every feature extractor is a custom class."""
        return True


class FrechetConfig(MetricConfig):
    """Fréchet distance between the features of predicted and target images (FID, Heusel et al. 2017)."""

    code: ClassVar[str] = "frechet:FrechetDistance"
    needs: ClassVar[tuple[str, ...]] = ("features|predicted", "target_features|target")

    name: Literal["frechet"]
    model: FeaturesConfig | None = Field(
        None,
        description="Custom module that computes image features; null: the validation step returns the features.",
    )

    def roles(self) -> tuple[str, ...]:
        return ("features", "target_features") if self.model is None else type(self).needs

    def settings(self) -> dict[str, Any]:
        if self.model is None:
            return {}
        weights = None if self.model.weights is None else str(self.model.weights)
        return {"model": self.model.name, "options": dict(self.model.options), "weights": weights}
