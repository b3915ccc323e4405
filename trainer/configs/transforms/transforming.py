"""The base of all transform sections, and custom transforms."""

from typing import Any, ClassVar

from pydantic import Field

from trainer.configs.custom_class import PATTERN, names_own_class
from trainer.configs.section import Section


class Transforming(Section):
    """Settings of every transform."""

    code: ClassVar[str] = ""
    """The class of the transform: file:Class in datasets/transforms."""
    is_own: ClassVar[bool] = False

    name: str
    probability: float = Field(
        1.0, ge=0, le=1, description="Probability that the transform is applied to an item, 0 to 1."
    )

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of the transform's class."""
        return {key: getattr(self, key) for key in type(self).model_fields if key != "name"}


class OwnTransform(Transforming):
    """A custom transform: a class derived from trainer.datasets.Transform."""

    is_own: ClassVar[bool] = True

    name: str = Field(
        pattern=PATTERN, description="Transform class, as ./file.py:Class, relative to the YAML file that sets it."
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Keyword arguments of the transform's constructor."
    )

    @staticmethod
    def matches(value: dict[str, Any]) -> bool:
        """Whether a mapping names a custom class."""
        return names_own_class(value.get("name"))

    def settings(self) -> dict[str, Any]:
        return self.options
