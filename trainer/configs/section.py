"""The base class of all sections of a configuration and of a task's `Options`.

Files of sections leave out `from __future__ import annotations`: pydantic would compile the text of each type again for
every derived section, which cost 40 ms at every start.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

Contradiction = tuple[tuple[Any, ...], str, tuple[str, ...]]
"""The keys that lead to the invalid value, why it is invalid, and the keys of the section that the rule depends on."""


class Section(BaseModel):
    """One mapping of the YAML: frozen, strictly typed, without unknown keys, NaN or infinity.

    Strict: text is not converted to numbers, nor integers to booleans; an integer is accepted where a number is
    expected. Tuples and sets are written as lists, paths and enumerations as text.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True, defer_build=True
    )

    exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of keys; exactly one key of each group must be set."""
    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of keys; at most one key of each group may be set."""

    def contradictions(self) -> Iterable[Contradiction]:
        """Contradictions between values of the section that are each valid on their own."""
        return ()
