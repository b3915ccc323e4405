"""Exported models: a pipeline with its network as programs and data in one file, which runs without the task's code.

docs/export.md has the format.
"""

from trainer.learner.exported.read import Exported, is_exported, read_exported
from trainer.learner.exported.write import write_exported

__all__ = ["Exported", "is_exported", "read_exported", "write_exported"]
