"""`hooks:` custom code that runs at certain points of training."""

from typing import Any

from pydantic import Field

from trainer.configs.custom_class import PATTERN
from trainer.configs.section import Section


class HookConfig(Section):
    """A custom hook: a class derived from trainer.learner.Hook."""

    name: str = Field(
        pattern=PATTERN, description="Hook class, as ./file.py:Class, relative to the YAML file that sets it."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the hook's constructor.")

    @staticmethod
    def matches(value: dict[str, Any]) -> bool:
        """Always true: every hook is a custom class."""
        return True
