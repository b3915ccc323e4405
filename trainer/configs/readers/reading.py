"""The base of all reader sections, and custom readers."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.custom_class import PATTERN, names_own_class
from trainer.configs.section import Section

_Share = Annotated[float, Field(gt=0, lt=1)]


class Reading(Section):
    """Settings of every reader."""

    code: ClassVar[str] = ""
    """The reader: file:name in datasets/readers."""
    is_own: ClassVar[bool] = False
    gives: ClassVar[tuple[str, ...]] = ()
    """Fields of the reader's items."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Keys whose text is the path of a file or folder, relative to data.root."""

    @property
    def divides(self) -> bool:
        """Whether the data set itself takes the splits of `fractions` from train."""
        return False

    name: str
    splits: dict[str, str] | None = Field(
        None,
        min_length=1,
        description="Name that replaces `{split}` in paths, by split: {train: train, valid: val}; null: the existing "
        "ones of train, valid (or val, validation) and test.",
    )
    fractions: dict[str, _Share] = Field(
        default_factory=dict,
        description="Fractions of the train split to use for other splits, between 0 and 1: {valid: 0.1}.",
    )
    fractions_by: Literal["seed", "order"] = Field(
        "seed",
        description="How `fractions` are taken from train. seed: a random choice, the same for the same seed; "
        "order: from the end.",
    )

    @property
    def form(self) -> str | None:
        """The format to look for if the layout is detected; None: any."""
        return None

    def fields(self) -> tuple[str, ...] | None:
        """Fields of the reader's items with these settings; None if they are known only after reading the data."""
        return type(self).gives

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of the reader."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in Reading.model_fields}


class OwnReader(Reading):
    """A custom reader: a data set class that is created as Class(root, split, **options)."""

    is_own: ClassVar[bool] = True

    name: str = Field(
        pattern=PATTERN, description="Data set class, as ./file.py:Class, relative to the YAML file that sets it."
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Keyword arguments of the data set's constructor, in addition to root and split.",
    )

    def fields(self) -> None:
        return None

    @staticmethod
    def matches(value: dict[str, Any]) -> bool:
        """Whether a mapping names a custom class."""
        return names_own_class(value.get("name"))
