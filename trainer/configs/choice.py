"""Sections of which a config chooses one by its `name`: a table of names, of which only those named are ever built.

All of them in pydantic's own unions cost every start 60 to 80 ms.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from trainer.configs.own import OWN_TAG, which
from trainer.configs.section import Section

_CHOICES: dict[type[Section], Choice] = {}


def choice_of(base: type) -> Choice | None:
    """What a section that is asked for as `base` may be; None where it is that and nothing else."""
    return _CHOICES.get(base)


@dataclass(frozen=True, eq=False)
class Choice:
    """What stands behind `Annotated[Base, Choice(Base, …)]`: a section that derives from Base."""

    base: type[Section]
    """What all of them derive from; the folder that it is in is theirs."""
    table: Mapping[str, str]
    """By name, the section: file:Class in the folder; by OWN_TAG, that of a class of the user's own."""
    _open: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        _CHOICES[self.base] = self

    def section(self, name: str) -> type[Section]:
        """The section of a name.

        Raises:
            KeyError: there is none.
        """
        file, _, class_name = self.table[name].partition(":")
        folder = self.base.__module__.rpartition(".")[0]
        found: type[Section] = getattr(importlib.import_module(f"{folder}.{file}"), class_name)
        return found

    def meant(self, value: Any) -> type[Section] | None:
        """The section that a mapping is meant as, by its `name`; None where that is none of the table's."""
        name = which(value)
        return self.section(name) if isinstance(name, str) and name in self.table else None

    def __get_pydantic_core_schema__(self, source: type[Section], handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self.validated)

    def validated(self, value: Any, info: ValidationInfo) -> Section:
        """The section that a mapping says; one that is made already is taken as it is."""
        if isinstance(value, self.base):
            return value
        name = which(value)
        if name is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'name'"})
        section = self.meant(value)
        if section is None:
            tags = ", ".join(f"'{known}'" for known in self.table)
            raise PydanticKnownError(
                "union_tag_invalid", {"discriminator": "'name'", "tag": str(name), "expected_tags": tags}
            )
        if info.mode == "json":
            return section.model_validate_json(json.dumps(value))  # strict, but a list may become a tuple
        return section.model_validate(value)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Every section of the table; this is where all of them are built."""
        parts: dict[Any, CoreSchema] = {}
        for name in self.table:
            section = self.section(name)
            section.model_rebuild()
            parts[name] = section.__pydantic_core_schema__
        if self._open:  # within a section of this very table, which the outer call describes
            parts = {name: core_schema.definition_reference_schema(part["ref"]) for name, part in parts.items()}
        self._open.append(True)
        try:
            return handler(core_schema.tagged_union_schema(parts, which))
        finally:
            self._open.pop()


__all__ = ["OWN_TAG", "Choice", "choice_of"]
