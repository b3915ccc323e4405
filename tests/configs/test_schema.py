"""The JSON Schema for editors comes from the models."""

from __future__ import annotations

import json

import pytest

from trainer.configs import json_schema, load


def test_every_section_and_variant_is_described():
    schema = json_schema()
    assert set(schema["properties"]) >= {"task", "extends", "data", "optimizer", "train", "validate", "checkpoint"}
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["AdamConfig"]["properties"]["betas"]["maxItems"] == 2
    assert schema["$defs"]["NumericsConfig"]["properties"]["class"]["enum"] == ["exact", "fast"]
    json.dumps(schema)


def test_the_options_of_a_task_are_part_of_it(gallery):
    options = type(load("tiny", recipes=gallery).options)
    schema = json_schema(options)
    part = schema["properties"]["options"]
    assert part["properties"]["width"]["exclusiveMinimum"] == 0
    reference = part["properties"]["head"].get("$ref")
    assert reference == "#/$defs/Options.Head" and "Options.Head" in schema["$defs"]


@pytest.mark.parametrize("name", ["data", "model", "train", "validate", "checkpoint"])
def test_every_key_of_a_section_has_a_type_or_a_choice(name):
    schema = json_schema()
    section = schema["$defs"][schema["properties"][name]["$ref"].rsplit("/", 1)[1]]
    assert all({"type", "anyOf", "enum", "$ref", "const"} & set(field) for field in section["properties"].values())
