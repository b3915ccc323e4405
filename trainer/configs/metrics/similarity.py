"""Metrics of images that a model made."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import OF_NUMBERS, MetricConfig
from trainer.configs.own import PATTERN
from trainer.configs.section import Section


class MsSsimConfig(MetricConfig):
    """Structural similarity at five scales (Wang, Simoncelli and Bovik 2003)."""

    code: ClassVar[str] = "ms_ssim:MsSsim"
    needs: ClassVar[tuple[str, ...]] = OF_NUMBERS

    name: Literal["ms_ssim"]
    data_range: float = Field(1.0, gt=0, description="The largest value less the smallest that images may have.")


class FeaturesConfig(Section):
    """A module of one's own that makes features [B, D] of images [B, C, H, W]."""

    name: str = Field(pattern=PATTERN, description="The class, as ./file.py:Class.")
    options: dict[str, Any] = Field(default_factory=dict, description="What it is made with.")
    weights: Path | None = Field(None, description="A safetensors file with its state dictionary.")

    @staticmethod
    def is_meant_by(value: dict[str, Any]) -> bool:
        """Whether a mapping names a class of the user's own: every one of this kind does."""
        return True


class FrechetConfig(MetricConfig):
    """The Fréchet distance between the features of two sets of images (Heusel et al. 2017)."""

    code: ClassVar[str] = "frechet:FrechetDistance"
    needs: ClassVar[tuple[str, ...]] = ("features|predicted", "target_features|target")

    name: Literal["frechet"]
    model: FeaturesConfig | None = Field(
        None,
        description="What makes features of images: `name: ./file.py:Class`, `options` `weights` as "
        "a safetensors file; null: the step gives features.",
    )

    def roles(self) -> tuple[str, ...]:
        return ("features", "target_features") if self.model is None else type(self).needs

    def settings(self) -> dict[str, Any]:
        if self.model is None:
            return {}
        weights = None if self.model.weights is None else str(self.model.weights)
        return {"model": self.model.name, "options": dict(self.model.options), "weights": weights}
