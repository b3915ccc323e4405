"""`hooks:` code of the user's own at moments of the training."""

from typing import Any

from pydantic import Field

from trainer.configs.own import PATTERN
from trainer.configs.section import Section


class HookConfig(Section):
    """A class derived from trainer.learner.Hook, named as ./file.py:Class."""

    name: str = Field(pattern=PATTERN, description="The class, as ./file.py:Class.")
    options: dict[str, Any] = Field(default_factory=dict, description="What it is made with.")

    @staticmethod
    def is_meant_by(value: dict[str, Any]) -> bool:
        """Every mapping here names a class of the user's own."""
        return True
