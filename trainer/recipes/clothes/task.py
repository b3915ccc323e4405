"""Classifies photos of clothes with a residual network (He et al. 2015) trained from scratch.

With only 3,068 photos the network would overfit. Every epoch crops, flips, recolors and mixes the photos differently
(CutMix, Yun et al. 2019). The tested weights are a moving average (Polyak and Juditsky 1992), evaluated on each photo
and its mirror image.
"""

from __future__ import annotations

from trainer.recipes.parts.backbones import HEADS, backbone
from trainer.recipes.parts.normalization import Normalize
from trainer.recipes.parts.photos import PhotoTask
from trainer.recipes.parts.resnet import ResNet

from .options import DECLARATION, Options


class Clothes(PhotoTask):
    """Classifies the piece of clothing in a photo."""

    options: Options
    head = HEADS

    def build(self) -> None:
        options, classes = self.options, len(self.class_names)
        self.normalize = Normalize.of(DECLARATION.normalization_of(self.config.model, options))
        if options.backbone is None:
            self.network = ResNet(
                options.blocks, width=options.width, classes=classes, stem=options.stem, dropout=options.dropout
            )
        else:
            self.network = backbone(options.backbone, classes, dropout=options.dropout)
        super().build()
