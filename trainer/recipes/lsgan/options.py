"""The `options:` of the lsgan recipe, and what the task requires and returns."""

from __future__ import annotations

from pydantic import Field

from trainer.configs import Declaration, Returns, Section


class Options(Section):
    """Options of the task."""

    noise: int = Field(
        128, gt=0, description="Length of the noise vector from which an image is generated (the latent size)."
    )
    filters: int = Field(
        32, gt=0, description="Number of channels at half of the image size; doubled at each further halving."
    )
    halvings: int = Field(4, gt=0, description="Number of times that the discriminator halves the image size.")
    fake: float = Field(0.0, description="Target value of the discriminator for generated images (a in the paper).")
    real: float = Field(1.0, description="Target value of the discriminator for real images (b in the paper).")
    generator_target: float = Field(
        1.0,
        description="Target value of the generator for the discriminator's output on generated images (c in the "
        "paper).",
    )


DECLARATION = Declaration(
    optimizers=("generator", "discriminator"),
    fields=("image",),
    train=Returns(("discriminator_loss", "generator_loss")),
    valid=Returns(("discriminator_output",), {"pictures": ("predicted", "target")}),
)
