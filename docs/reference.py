"""Writes docs/reference.md, every key of a configuration, from the models themselves.

python docs/reference.py            write it
python docs/reference.py --check    exit with 1 when it is not current
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from trainer.configs import json_schema  # noqa: E402 - the checkout must be importable first

TARGET = ROOT / "docs" / "reference.md"
HEAD = """\
# Every key of a configuration

Written by `python docs/reference.py` from the models in `trainer/configs`; don't edit it. `trainer schema` prints the
same as JSON Schema. A task's own `options` are listed in its recipe's folder.
"""


def reference() -> str:
    """The text of the reference."""
    schema = json_schema()
    definitions = schema["$defs"]
    parts = [HEAD, "## At the top\n", _table(schema["properties"], definitions)]
    for name, field in schema["properties"].items():
        for variant in _definitions(field, definitions):
            parts.append(_section(name, variant, definitions))
        if name == "metrics":
            parts += [_section(name, each, definitions) for each in _metrics(definitions)]
    for variant in _definitions(definitions["DataConfig"]["properties"]["reader"], definitions):
        parts.append(_section("data.reader", variant, definitions))
    transforms = definitions["TransformsConfig"]
    parts.append(_section("data.transforms", transforms, definitions))
    for variant in _definitions(transforms["properties"]["train"]["anyOf"][0]["items"], definitions):
        parts.append(_section("data.transforms", variant, definitions))
    best = definitions["BestConfig"]
    parts.append(f"## `checkpoint.best`\n\n{best['description']}\n\n{_table(best['properties'], definitions)}")
    return "\n".join(dict.fromkeys(parts))


def _metrics(definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """The sections of metrics, which stand in the lists of `metrics`."""
    entries = definitions["MetricsConfig"]["properties"]["valid"]["items"]["anyOf"]
    return [entry for entry in entries if "properties" in entry]


def _section(name: str, definition: dict[str, Any], definitions: dict[str, Any]) -> str:
    tag = definition["properties"].get("name", {}).get("const")
    title = f"## `{name}` with `name: {tag}`" if tag else f"## `{name}`"
    return f"{title}\n\n{definition['description']}\n\n{_table(definition['properties'], definitions)}"


def _definitions(field: dict[str, Any], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """The sections that a key at the top may hold; those of `optimizers` are those of `optimizer`."""
    references = [field, *field.get("anyOf", []), *field.get("oneOf", [])]
    references += [choice for part in field.get("anyOf", []) for choice in part.get("oneOf", [])]
    names = [part["$ref"].rsplit("/", 1)[1] for part in references if "$ref" in part]
    return [definitions[name] for name in names]


def _table(properties: dict[str, Any], definitions: dict[str, Any]) -> str:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in properties.items():
        is_fixed = "const" in field  # a name that tells kinds of sections apart: it has to be written
        has_default = not is_fixed and not isinstance(field.get("default", {}), dict)
        default = f"`{json.dumps(field['default'])}`" if has_default else ""
        lines.append(f"| `{key}` | {_kind(field, definitions)} | {default} | {_meaning(field, definitions)} |")
    return "\n".join(lines) + "\n"


def _meaning(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    """A key's own description, or that of its section."""
    if "description" in field or "$ref" not in field:
        return str(field.get("description", ""))
    return str(definitions[field["$ref"].rsplit("/", 1)[1]]["description"])


def _kind(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    """What a key takes, in words."""
    if "$ref" in field or "oneOf" in field:
        return "section"
    if any("enum" in part and "properties" in field["anyOf"][-1] for part in field.get("anyOf", [])):
        return "metrics, by name or as sections"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_kind(part, definitions) for part in field["anyOf"]))
    if "const" in field or "enum" in field:
        return ", ".join(f"`{word}`" for word in field.get("enum", [field.get("const")]))
    kind = field.get("type")
    if kind == "array":
        items = field.get("items") or field.get("prefixItems", [{}])[0]
        many = f"{field['maxItems']} times " if "maxItems" in field else "list of "
        return many + _kind(items, definitions)
    if kind == "object":
        extra = field.get("additionalProperties")
        return "sections by name" if isinstance(extra, dict) and extra else "mapping"
    words = {"integer": "whole number", "number": "number", "boolean": "true, false", "string": "text", "null": "null"}
    return words[str(kind)] + _range(field)


def _range(field: dict[str, Any]) -> str:
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    bounds = [f"{sign} {field[name]:,}" for name, sign in signs.items() if name in field]
    return f" {', '.join(bounds)}" if bounds else ""


def main() -> int:
    """Write the file, or with `--check` compare it."""
    text = reference()
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
