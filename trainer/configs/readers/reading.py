"""What every reader's section has, and readers of the user's own."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.own import PATTERN, names_own_class
from trainer.configs.section import Section

_Share = Annotated[float, Field(gt=0, lt=1)]


class Reading(Section):
    """What every reader has."""

    code: ClassVar[str] = ""
    """Where the reader is: file:name in datasets/readers."""
    is_own: ClassVar[bool] = False
    gives: ClassVar[tuple[str, ...]] = ()
    """Fields of its items."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Keys of which a text is the path of a file or folder in data.root."""

    name: str
    splits: dict[str, str] | None = Field(
        None,
        min_length=1,
        description="The word that `{split}` stands for in paths, by split: {train: train, valid: val}; null: those "
        "that are there of train, valid (or val, validation) and test.",
    )
    fractions: dict[str, _Share] = Field(
        default_factory=dict, description="Splits that are taken from train, and their shares of it: {valid: 0.1}."
    )
    fractions_by: Literal["seed", "order"] = Field(
        "seed", description="seed: a random choice, the same for the same seed; order: from the end."
    )

    @property
    def form(self) -> str | None:
        """The format that is looked for where the layout is detected; None: any."""
        return None

    def fields(self) -> tuple[str, ...] | None:
        """Fields of its items, with these settings; None where that is known once the data is read."""
        return type(self).gives

    def settings(self) -> dict[str, Any]:
        """What the reader itself is given."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in Reading.model_fields}


class OwnReader(Reading):
    """A class of one's own, named as ./file.py:Class: Class(root, split, **options) is a data set."""

    is_own: ClassVar[bool] = True

    name: str = Field(pattern=PATTERN, description="The class, as ./file.py:Class.")
    options: dict[str, Any] = Field(default_factory=dict, description="Its own settings.")

    def fields(self) -> None:
        return None

    @staticmethod
    def is_meant_by(value: dict[str, Any]) -> bool:
        """Whether a mapping names a class of the user's own."""
        return names_own_class(value.get("name"))
