"""The configuration reference, a page for each section, written from the models in `trainer/configs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from trainer.configs import json_schema

EXAMPLES = Path(__file__).with_name("examples.yaml")
"""An example for each page, by its name."""
NESTED = {
    "data.reader": lambda types: types["DataConfig"]["properties"]["reader"],
    "data.transforms": lambda types: types["TransformsConfig"]["properties"]["train"]["anyOf"][0]["items"],
    "checkpoint.best": lambda types: types["CheckpointConfig"]["properties"]["best"],
    "metrics": lambda types: types["MetricsConfig"]["properties"]["valid"]["items"],
}
"""By key: where the schema declares what is nested under a section and too long for its table."""

Schema = dict[str, Any]


def pages() -> dict[str, str]:
    """The pages of the reference by path; `reference/index.md` lists the others."""
    schema = json_schema()
    types, examples = schema["$defs"], yaml.safe_load(EXAMPLES.read_text(encoding="utf-8"))
    keys = dict(schema["properties"])
    found = {name: [_section(each, types) for each in _variants(field, types)] for name, field in keys.items()}
    for name, locate in NESTED.items():
        found[name] = found.get(name, []) + [_section(each, types) for each in _variants(locate(types), types)]
    found["data.transforms"].insert(0, _section(types["TransformsConfig"], types))
    pages = {
        f"reference/{name}.md": f"# {name}\n\n{_example(examples[name])}\n{''.join(dict.fromkeys(sections))}"
        for name, sections in found.items()
        if sections and not _is_same_as_another(name)
    }
    rows = {name: f"[`{name}`]({_page(name)}.md)" if found[name] else f"`{name}`" for name in keys}
    nested = "".join(f"- [`{name}`]({name}.md)\n" for name in NESTED if name not in keys)
    pages["reference/index.md"] = (
        "# Configuration reference\n\nEvery key of a configuration file, with its range, default and meaning. "
        "[Configuration](../configuration.md) explains how files and overrides combine. "
        "`trainer schema` prints this reference as JSON Schema, for editors.\n\n"
        f"## Top-level keys\n\n{_table(keys, types, rows)}\n## Nested sections\n\n{nested}"
    )
    return pages


def _is_same_as_another(name: str) -> bool:
    """`optimizers` holds sections of `optimizer` by name."""
    return _page(name) != name


def _page(name: str) -> str:
    return "optimizer" if name == "optimizers" else name


def _example(value: Any) -> str:
    text = yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=90)
    return f"```yaml\n{text}```\n"


def _variants(field: Schema, types: Schema) -> list[Schema]:
    """The sections that a key may hold."""
    if "$ref" in field:
        return [types[field["$ref"].rsplit("/", 1)[1]]]
    if "properties" in field:
        return [field]
    if field.get("type") == "array":
        return _variants(field.get("items", {}), types)
    choices = [*field.get("anyOf", []), *field.get("oneOf", [])]
    return [variant for choice in choices for variant in _variants(choice, types)]


def _section(section: Schema, types: Schema) -> str:
    name = section["properties"].get("name", {}).get("const")
    title = f"## {name}\n\n" if name else "## Keys\n\n" if "name" not in section["properties"] else "## Your own\n\n"
    return f"{title}{section['description']}\n\n{_table(section['properties'], types)}\n"


def _table(properties: Schema, types: Schema, names: dict[str, str] | None = None) -> str:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in properties.items():
        is_fixed = "const" in field  # the name that selects the kind of section has to be written
        has_default = not is_fixed and not isinstance(field.get("default", {}), dict)
        default = f"`{json.dumps(field['default'])}`" if has_default else ""
        shown = (names or {}).get(key, f"`{key}`")
        lines.append(f"| {shown} | {_kind(field, types)} | {default} | {_meaning(field, types)} |")
    return "\n".join(lines) + "\n"


def _meaning(field: Schema, types: Schema) -> str:
    """A key's own description, or that of its section."""
    if "description" in field or "$ref" not in field:
        return str(field.get("description", ""))
    return str(types[field["$ref"].rsplit("/", 1)[1]]["description"])


def _kind(field: Schema, types: Schema) -> str:
    """The values that a key takes, in words."""
    if "$ref" in field or "oneOf" in field:
        return "section"
    if any("enum" in part and "properties" in field["anyOf"][-1] for part in field.get("anyOf", [])):
        return "metrics, by name or as sections"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_kind(part, types) for part in field["anyOf"]))
    if "const" in field or "enum" in field:
        return ", ".join(f"`{word}`" for word in field.get("enum", [field.get("const")]))
    kind = field.get("type")
    if kind == "array":
        items = field.get("items") or field.get("prefixItems", [{}])[0]
        many = f"{field['maxItems']} times " if "maxItems" in field else "list of "
        return many + _kind(items, types)
    if kind == "object":
        extra = field.get("additionalProperties")
        return "sections by name" if isinstance(extra, dict) and extra else "mapping"
    words = {"integer": "integer", "number": "number", "boolean": "true, false", "string": "text", "null": "null"}
    return words[str(kind)] + _range(field)


def _range(field: Schema) -> str:
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    bounds = [f"{sign} {field[name]:,}" for name, sign in signs.items() if name in field]
    return f" {', '.join(bounds)}" if bounds else ""
