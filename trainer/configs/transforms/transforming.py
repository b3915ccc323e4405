"""What every transform's section has, and transforms of the user's own."""

from typing import Any, ClassVar

from pydantic import Field

from trainer.configs.own import PATTERN, names_own_class
from trainer.configs.section import Section


class Transforming(Section):
    """What every transform has."""

    code: ClassVar[str] = ""
    """Where the transform is: file:Class in datasets/transforms."""
    is_own: ClassVar[bool] = False

    name: str
    probability: float = Field(1.0, ge=0, le=1, description="How likely it is to be applied to an item.")

    def settings(self) -> dict[str, Any]:
        """What the transform's class is made with."""
        return {key: getattr(self, key) for key in type(self).model_fields if key != "name"}


class OwnTransform(Transforming):
    """A class derived from trainer.datasets.Transform, named as ./file.py:Class."""

    is_own: ClassVar[bool] = True

    name: str = Field(pattern=PATTERN, description="The class, as ./file.py:Class.")
    options: dict[str, Any] = Field(default_factory=dict, description="What it is made with.")

    @staticmethod
    def is_meant_by(value: dict[str, Any]) -> bool:
        """Whether a mapping names a class of the user's own."""
        return names_own_class(value.get("name"))

    def settings(self) -> dict[str, Any]:
        return self.options
