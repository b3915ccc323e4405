"""The option `backbone` of recipes, and the normalization that belongs to it. Imports nothing heavy."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from trainer.configs import NormalizationConfig

BackboneName = Literal["resnet18", "resnet50", "mobilenet_v3_small", "convnext_tiny"]


def backbone_field(replaced: str) -> Any:
    """The field of an option `backbone: BackboneName | None`; `replaced` names the options that then have no effect."""
    return Field(
        None,
        description="Standard backbone by name, with torchvision's parameter names, for pretrained weights; "
        f"{replaced} then have no effect. null: the recipe's own network.",
    )


def imagenet() -> NormalizationConfig:
    """The normalization of torchvision's and most of timm's pretrained weights."""
    return NormalizationConfig(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


def around_zero(mean: float, std: float) -> NormalizationConfig:
    """One mean and standard deviation for all channels, of values from 0 to 1."""
    return NormalizationConfig(mean=(mean,), std=(std,))
