"""Classes of the user's own, named in the config as ./file.py:Class, that derive from one of the learner's."""

from __future__ import annotations

from typing import TypeVar

from trainer import TrainerError
from trainer.configs.own import own_class

Base = TypeVar("Base")


def own_subclass(name: str, base: type[Base]) -> type[Base]:
    """The class that an absolute `file.py:Class` names.

    Raises:
        TrainerError: there is none, or it does not derive from `base`.
    """
    what = base.__name__
    try:
        found = own_class(name)
    except ValueError as error:
        raise TrainerError(f"no such {what.lower()}", found=str(error)) from error
    if not issubclass(found, base):
        raise TrainerError(f"{name} is no {what.lower()}", expected=f"a class derived from trainer.learner.{what}")
    return found
