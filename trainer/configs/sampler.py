"""`data.sampler:` which items a training epoch contains."""

from typing import Annotated, Literal

from pydantic import Field

from trainer.configs.section import Section

_Weight = Annotated[float, Field(ge=0)]


class ClassBalancedSampler(Section):
    """Draws every class equally often; no item repeats before all others of its class were drawn."""

    name: Literal["class_balanced"]
    samples: int | None = Field(
        None, gt=0, description="Number of items per epoch; null: the number of items of the data set."
    )


class WeightedSampler(Section):
    """Draws items at random with replacement, in proportion to the weight of their class."""

    name: Literal["weighted"]
    class_weights: dict[str, _Weight] = Field(
        min_length=1,
        description="Sampling weights by class name, such as {scratch: 5}; other classes have weight 1. 0: never "
        "drawn.",
    )
    samples: int | None = Field(
        None, gt=0, description="Number of items per epoch; null: the number of items of the data set."
    )


SamplerConfig = Annotated[ClassBalancedSampler | WeightedSampler, Field(discriminator="name")]
