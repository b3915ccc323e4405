"""Sections that a config selects by `name` from a table; only the selected sections are built.

Building all sections as pydantic unions took 60 to 80 ms at every start.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from trainer.configs.custom_class import OWN_TAG, which
from trainer.configs.section import Section

_CHOICES: dict[type[Section], Choice] = {}


def choice_of(base: type) -> Choice | None:
    """The choice of sections that derive from `base`; None if `base` is a single section."""
    return _CHOICES.get(base)


@dataclass(frozen=True, eq=False)
class Choice:
    """The alternatives of `Annotated[Base, Choice(Base, …)]`: sections that derive from Base."""

    base: type[Section]
    """The common base class; the alternatives are modules in its folder."""
    table: Mapping[str, str]
    """Maps each name to its section, as file:Class in the folder; OWN_TAG maps to the section of custom classes."""
    _open: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        _CHOICES[self.base] = self

    def section(self, name: str) -> type[Section]:
        """The section class of a name.

        Raises:
            KeyError: no section has this name.
        """
        file, _, class_name = self.table[name].partition(":")
        folder = self.base.__module__.rpartition(".")[0]
        found: type[Section] = getattr(importlib.import_module(f"{folder}.{file}"), class_name)
        return found

    def selected(self, value: Any) -> type[Section] | None:
        """The section class that a mapping selects by its `name`; None if the name is not in the table."""
        name = which(value)
        return self.section(name) if isinstance(name, str) and name in self.table else None

    def __get_pydantic_core_schema__(self, source: type[Section], handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self.validated)

    def validated(self, value: Any, info: ValidationInfo) -> Section:
        """The section built from a mapping; a section instance is returned unchanged."""
        if isinstance(value, self.base):
            return value
        name = which(value)
        if name is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'name'"})
        section = self.selected(value)
        if section is None:
            tags = ", ".join(f"'{known}'" for known in self.table)
            raise PydanticKnownError(
                "union_tag_invalid", {"discriminator": "'name'", "tag": str(name), "expected_tags": tags}
            )
        if info.mode == "json":
            return section.model_validate_json(json.dumps(value))  # strict, but a list may become a tuple
        return section.model_validate(value)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema of every section of the table. This is the only place that builds all of them."""
        parts: dict[Any, CoreSchema] = {}
        for name in self.table:
            section = self.section(name)
            section.model_rebuild()
            parts[name] = section.__pydantic_core_schema__
        if self._open:  # nested inside a section of the same table, which the outer call already describes
            parts = {name: core_schema.definition_reference_schema(part["ref"]) for name, part in parts.items()}
        self._open.append(True)
        try:
            return handler(core_schema.tagged_union_schema(parts, which))
        finally:
            self._open.pop()


__all__ = ["OWN_TAG", "Choice", "choice_of"]
