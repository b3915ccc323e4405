"""The base of every section of a configuration, and of a task's own `Options`.

Files of sections leave out `from __future__ import annotations`: pydantic would compile the text of each type again for
every section that derives from one, which cost every start 40 ms.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

Contradiction = tuple[tuple[Any, ...], str, tuple[str, ...]]
"""The keys that lead to what is wrong, why it is, and the keys of the section that the verdict rests on."""


class Section(BaseModel):
    """One mapping of the YAML: frozen, of strict types, without unknown keys and without nan or infinity.

    Strict: text is no number and a whole number is no boolean; a whole number is accepted where a number is expected.
    Tuples and sets are written as lists, paths and enumerations as text.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True, defer_build=True
    )

    exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of keys of which one must be set, and only one."""
    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of keys of which no more than one may be set."""

    def contradictions(self) -> Iterable[Contradiction]:
        """What is wrong among its own values, each of which is right by itself."""
        return ()
