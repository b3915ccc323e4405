"""Exported models: a pipeline with its network as programs and data in one file, which runs without the task's code.

docs/export.md has the format.
"""

from trainer.learner.exported.card import Card
from trainer.learner.exported.read import Exported, read_exported
from trainer.learner.exported.write import write_exported

__all__ = ["Card", "Exported", "read_exported", "write_exported"]
