"""Pydantic without its plugins, which no part of us has: looking for them reads the entry points of all installed."""

from __future__ import annotations

import os
import sys
from types import ModuleType

VARIABLE = "PYDANTIC_DISABLE_PLUGINS"
LOADER = "pydantic.plugin._loader"


def leave_out_plugins() -> None:
    """Before Pydantic is imported: let it look for no plugins, unless the environment says which.

    Looking for them costs 25 ms of a start of 150, and importing what looks (`importlib.metadata`, with its e-mails and
    archives) 15 more, even if it is told not to look: so there is another one in its place, that finds nothing.
    """
    if os.environ.setdefault(VARIABLE, "__all__") == "__all__" and LOADER not in sys.modules:
        loader = ModuleType(LOADER)
        loader.get_plugins = tuple  # type: ignore[attr-defined]
        sys.modules[LOADER] = loader
