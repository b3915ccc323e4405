"""The origin of a function or object: the user's code, which may change, this package, or a library."""

from __future__ import annotations

import functools
import sys
from typing import Literal


@functools.lru_cache(maxsize=4096)
def origin(module: str) -> Literal["user", "package", "library"]:
    """The origin of a function or class of `module`. Recipes are treated as a user's code, since users copy them.

    Attributes of objects of the standard library (loggers, locks) are not guarded, except SimpleNamespace and
    Namespace, which hold settings.
    """
    top = module.partition(".")[0]
    if top == "trainer":
        return "user" if module.startswith("trainer.recipes.") else "package"
    if module in ("types", "argparse"):
        return "user"
    return "library" if top in sys.stdlib_module_names or top in ("numpy", "pydantic", "pydantic_core") else "user"


def is_closed(module: str) -> bool:
    """Whether `module` belongs to the engine, but not to its layers."""
    is_of_layers = module.startswith("trainer.engine.nn.") and module != "trainer.engine.nn.module"
    return f"{module}.".startswith("trainer.engine.") and not is_of_layers
