"""`data.sampler:` which items an epoch of training has."""

from typing import Annotated, Literal

from pydantic import Field

from trainer.configs.section import Section

_Weight = Annotated[float, Field(ge=0)]


class ClassBalancedSampler(Section):
    """Every class as often as any other; the items of a class take turns."""

    name: Literal["class_balanced"]
    samples: int | None = Field(None, gt=0, description="Samples in an epoch; null: as many as there are items.")


class WeightedSampler(Section):
    """Draws with replacement, an item as likely as its class's weight."""

    name: Literal["weighted"]
    class_weights: dict[str, _Weight] = Field(
        min_length=1, description="Weights by class name, {scratch: 5}; 1 for those that are not named."
    )
    samples: int | None = Field(None, gt=0, description="Samples in an epoch; null: as many as there are items.")


SamplerConfig = Annotated[ClassBalancedSampler | WeightedSampler, Field(discriminator="name")]
