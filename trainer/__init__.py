"""trainer: train vision and sequence models from one typed YAML file, on its own tensor engine.

Only names that cost nothing to import are defined here; the others are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["TrainerError", "__version__", "load_model", "open_run", "run"]

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trainer.cli.models import load_model as load_model
    from trainer.cli.python import run as run
    from trainer.rundir import open_run as open_run


class TrainerError(Exception):
    """An error that the user can fix: says where, what was found, what was expected and what to do.

    The command line prints it without a traceback and exits with 2.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        found: object = None,
        expected: object = None,
        hint: str | None = None,
    ) -> None:
        self.message, self.where, self.found, self.expected, self.hint = message, where, found, expected, hint
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        if self.found is not None:
            lines.append(f"  found:    {self.found}")
        if self.expected is not None:
            lines.append(f"  expected: {self.expected}")
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


def cache_folder() -> Path:
    """The folder of this user's caches (kernels, weights, tokens, …): TRAINER_CACHE_DIR, or ~/.cache/trainer."""
    import os
    from pathlib import Path

    if override := os.environ.get("TRAINER_CACHE_DIR"):
        return Path(override)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")) / "trainer"


def on_demand(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package that imports the names in its block `if TYPE_CHECKING:` on first use.

    So each name is written once, where type checkers read it.
    """

    def get(name: str) -> Any:
        import ast
        import importlib
        import pkgutil
        import sys

        source = b"" if name.startswith("__") else pkgutil.get_data(package, "__init__.py") or b""
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module and name in [alias.asname for alias in node.names]:
                value = getattr(importlib.import_module(node.module), name)
                setattr(sys.modules[package], name, value)
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


__getattr__ = on_demand(__name__)
