"""What can be set under `options:` of the lsgan recipe, and what the task needs and gives."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    noise: int = Field(128, gt=0, description="Numbers from which a picture is made.")
    filters: int = Field(32, gt=0, description="Channels at half of the picture's size; doubled at each halving.")
    halvings: int = Field(4, gt=0, description="How often the picture's size is halved by the discriminator.")
    fake: float = Field(0.0, description="What the discriminator is to say of pictures that were made (a).")
    real: float = Field(1.0, description="What it is to say of photos (b).")
    wished: float = Field(1.0, description="What the generator wants it to say of what it made (c).")


DECLARATION = Declaration(
    optimizers=("generator", "discriminator"),
    fields=("image",),
    train=Returns(("discriminator_loss", "generator_loss")),
    valid=Returns(("judgement",), {"pictures": ("predicted", "target")}),
)
