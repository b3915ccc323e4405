"""Classifies photos of clothes with a vision transformer (Dosovitskiy et al. 2021) trained from scratch.

The photo is cut into patches, which attend to each other. The mean over the patches is classified. Photos are
augmented as in the recipe `clothes`, so that both networks can be compared.
"""

from __future__ import annotations

from trainer import TrainerError, engine
from trainer.engine import Tensor, nn
from trainer.recipes.parts.normalization import Normalize
from trainer.recipes.parts.photos import PhotoTask

from .options import DECLARATION, Options


class VisionTransformerTask(PhotoTask):
    """Classifies the piece of clothing in a photo."""

    options: Options
    head = ("network.classes.*",)

    def build(self) -> None:
        self.normalize = Normalize.of(DECLARATION.normalization_of(self.config.model, self.options))
        self.network = VisionTransformer(self.options, len(self.class_names))
        super().build()


class VisionTransformer(nn.Module):
    """Images [N, 3, size, size] to logits [N, classes]."""

    def __init__(self, options: Options, classes: int) -> None:
        if options.size % options.patch:
            raise TrainerError(
                "patches don't divide the photos", where="options.patch", found=options.patch,
                expected=f"a divisor of {options.size}",
            )  # fmt: skip
        width, self.side = options.width, options.size // options.patch
        self.size = options.size
        self.patches = nn.Conv2d(3, width, options.patch, stride=options.patch)
        self.positions = nn.LearnedPositions(width, self.side**2)
        self.dropout = nn.Dropout(options.dropout)
        self.blocks = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(
                    width, options.heads, 4 * width, dropout=options.dropout, activation="gelu", batch_first=True,
                    norm_first=True,
                )
                for _ in range(options.depth)
            ]
        )  # fmt: skip
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        self._check_shape(x.shape[1:] == (3, self.size, self.size), x, f"[N, 3, {self.size}, {self.size}]")
        features = self.patches(x)
        tokens = engine.permute_dims(engine.reshape(features, (*features.shape[:2], self.side**2)), (0, 2, 1))
        tokens = self.dropout(self.positions(tokens))
        for block in self.blocks:
            tokens = block(tokens)
        return self.classes(engine.mean(self.norm(tokens), axis=1))
