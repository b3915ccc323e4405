"""trainer: train vision models from one typed YAML file, on its own tensor engine.

Only names that cost nothing to import live here; everything else is handed on lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["TrainerError", "__version__", "load_model", "open_run", "run"]

if TYPE_CHECKING:
    from trainer.cli.models import load_model as load_model
    from trainer.cli.python import run as run
    from trainer.rundir import open_run as open_run


class TrainerError(Exception):
    """A mistake that the user can mend: says where, what was found, what was expected and what to do.

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


_LAZY = {"load_model": "trainer.cli.models", "open_run": "trainer.rundir", "run": "trainer.cli.python"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'trainer' has no attribute {name!r}")
