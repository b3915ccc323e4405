"""Values of a resolved configuration as texts, read by its fixed form: parsing YAML takes a hundred times as long."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from trainer.rundir.layout import RunPaths

ABSENT = "-"
"""The text for a key that a run's configuration does not have."""

NOT_COMPARED = ("name",)
_LINE = re.compile(r"( *)([^\s:#][^:]*|\"[^\"]*\"):(?: (.*))?")


def config_values(paths: RunPaths) -> dict[str, str]:
    """The values of the latest attempt's resolved configuration by dotted key; empty without one."""
    try:
        text = paths.config(max(paths.last_attempt, 1)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    values: dict[str, str] = {}
    path: list[str] = []
    for line in text.splitlines():
        if (found := _LINE.fullmatch(line)) is None:
            continue
        value = (found[3] or "").rpartition("  # ")[0] or (found[3] or "")
        path[len(found[1]) // 2 :] = [found[2].strip('"')]
        if value := value.strip():
            values[".".join(path)] = value.strip('"')
    return values


def differing_keys(configs: Sequence[Mapping[str, str]]) -> list[str]:
    """The dotted keys whose values differ between the configurations."""
    keys = dict.fromkeys(key for config in configs for key in config if key not in NOT_COMPARED)
    return [key for key in keys if len({config.get(key, ABSENT) for config in configs}) > 1]
