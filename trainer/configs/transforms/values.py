"""Types of values and common settings of several transforms."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from trainer.configs.transforms.transforming import Transforming


def _increasing(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError(f"expected the smaller number first, found {bounds[0]:g} before {bounds[1]:g}")
    return bounds


Pixels = Annotated[int, Field(gt=0, le=65536)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]
Shares = Annotated[tuple[Share, Share], AfterValidator(_increasing)]
PositiveShares = Annotated[tuple[PositiveShare, PositiveShare], AfterValidator(_increasing)]
Positives = Annotated[tuple[Positive, Positive], AfterValidator(_increasing)]
Sizes = Annotated[tuple[NotNegative, NotNegative], AfterValidator(_increasing)]
Place = Annotated[int, Field(ge=0)]


def _both(size: Any) -> Any:
    if isinstance(size, int) and not isinstance(size, bool):
        return size, size
    return tuple(size) if isinstance(size, list) else size


_PIXELS = {"type": "integer", "exclusiveMinimum": 0, "maximum": 65536}
Size = Annotated[
    tuple[Pixels, Pixels],
    BeforeValidator(_both),
    WithJsonSchema({"anyOf": [_PIXELS, {"type": "array", "items": _PIXELS, "minItems": 2, "maxItems": 2}]}),
]


class Sized(Transforming):
    """Base of transforms that produce images of a fixed size."""

    size: Size = Field(description="Height and width of the result in pixels, or one number for both.")


class Filling(Transforming):
    """Base of transforms that may show areas outside the image."""

    fill: int = Field(0, ge=0, le=255, description="Gray value of areas outside the image, 0 to 255; masks get 255.")


class Dropping(Transforming):
    """Base of transforms that may cut off objects."""

    min_visible: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Minimum visible fraction of an object's box, 0 to 1; objects with less are dropped.",
    )
