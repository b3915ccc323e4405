"""The JSON Schema of a configuration, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from trainer.configs.run import RunConfig


def json_schema(options_model: type[BaseModel] | None = None) -> dict[str, Any]:
    """The schema of `RunConfig` (draft 2020-12), with the options of one task if its model is given.

    `task` is not required: a file that extends a recipe inherits it.
    """
    schema = RunConfig.model_json_schema(by_alias=True)
    if options_model is not None:
        options = options_model.model_json_schema(by_alias=True, ref_template="#/$defs/Options.{model}")
        for name, definition in options.pop("$defs", {}).items():
            schema["$defs"][f"Options.{name}"] = definition
        schema["properties"]["options"] = options
    schema["required"] = []
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
