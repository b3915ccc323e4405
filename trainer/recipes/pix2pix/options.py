"""What can be set under `options:` of the pix2pix recipe, and what the task needs and gives."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    filters: int = Field(64, gt=0, description="Channels of both networks' first layer; the paper's are 64.")
    depth: int = Field(
        8, ge=4, description="How often the generator halves the picture, whose sides are divisible by 2^depth."
    )
    dropout: float = Field(0.5, ge=0, lt=1, description="Share of features left out in three inner doublings.")
    l1_weight: float = Field(100.0, ge=0, description="What the L1 distance counts beside the adversarial loss.")
    samples: int = Field(6, ge=0, description="So many pictures of the validation split are shown after each epoch.")


DECLARATION = Declaration(
    optimizers=("generator", "discriminator"),
    fields=("image", "target"),
    own_data=("classes.json",),
    train=Returns(("loss", "l1", "adversarial", "discriminator")),
    valid=Returns(("l1",), {"pictures": ("predicted", "target")}),
)
