"""The `options:` of the pix2pix recipe, and what the task requires and returns."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    filters: int = Field(
        64, gt=0, description="Number of channels in the first layer of both networks; 64 in the paper."
    )
    depth: int = Field(
        8,
        ge=4,
        description="Number of times that the generator halves the image; height and width must be divisible by "
        "2^depth.",
    )
    dropout: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="Dropout: fraction of features that are dropped in the three innermost decoder levels during "
        "training; 0: none.",
    )
    l1_weight: float = Field(
        100.0, ge=0, description="Weight of the L1 loss relative to the adversarial loss; 0: adversarial loss only."
    )
    samples: int = Field(
        6, ge=0, description="Number of images of the validation split that are shown after each epoch; 0: none."
    )


DECLARATION = Declaration(
    optimizers=("generator", "discriminator"),
    fields=("image", "target"),
    own_data=("classes.json",),
    train=Returns(("loss", "l1", "adversarial", "discriminator")),
    valid=Returns(("l1",), {"pictures": ("predicted", "target")}),
)
