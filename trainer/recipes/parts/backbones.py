"""Backbones by name, as `options.backbone` of recipes: standard networks with torchvision's parameter names."""

from __future__ import annotations

from trainer.recipes.parts.backbone_options import BackboneName
from trainer.recipes.parts.convnext import ConvNeXtTiny
from trainer.recipes.parts.mobilenet import MobileNetV3Small
from trainer.recipes.parts.resnet import Bottleneck, ResNet

Backbone = ResNet | MobileNetV3Small | ConvNeXtTiny
"""`stages(x)` returns the features at 1/4, 1/8, 1/16 and 1/32 of the size, with `channels`."""

HEADS = ("network.fc.*", "network.classifier.[23].*")
"""The layers whose shapes depend on the number of classes, for a classifier in the attribute `network`."""


def backbone(name: BackboneName, classes: int = 0, *, dropout: float = 0.0) -> Backbone:
    """The network of this name.

    Args:
        classes: number of classes; 0: no classifier, only features.
        dropout: fraction of the classifier's features that are dropped during training.
    """
    match name:
        case "resnet18":
            return ResNet((2, 2, 2, 2), classes=classes, dropout=dropout)
        case "resnet50":
            return ResNet((3, 4, 6, 3), Bottleneck, classes=classes, dropout=dropout)
        case "mobilenet_v3_small":
            return MobileNetV3Small(classes, dropout=dropout)
        case "convnext_tiny":
            return ConvNeXtTiny(classes, dropout=dropout)
