"""Exported models: a pipeline with its network as compiled programs and data in one file, which needs no task code.

The format is described in docs/export.md.
"""

from trainer.learner.exported.card import Card
from trainer.learner.exported.read import Exported, read_exported
from trainer.learner.exported.write import write_exported

__all__ = ["Card", "Exported", "read_exported", "write_exported"]
