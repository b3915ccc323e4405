"""Finds the class of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.configs import TaskReference
from trainer.configs.custom_class import own_mistake

if TYPE_CHECKING:
    from trainer.learner import Task


def task_class(reference: TaskReference) -> type[Task]:
    """Imports the task's module and returns the named class, or the module's only public task.

    Raises:
        TrainerError: the module has no such class, or several tasks and none is named; errors of a user's module, with
            their source lines.
        Exception: any exception of a recipe's module.
    """
    try:
        module = reference.import_module()
    except Exception as error:
        if isinstance(error, TrainerError) or (mistake := own_mistake(error)) is None:
            raise
        raise TrainerError(mistake) from error
    from trainer.learner import Task

    tasks = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Task)
        and value.__module__ == module.__name__
        and name[0] != "_"
    }
    where = str(reference.file)
    if reference.class_name is None:
        if len(tasks) != 1:
            raise TrainerError(
                "the task's class is ambiguous or missing",
                where=where,
                found=", ".join(tasks) or "none",
                expected="one",
            )
        return next(iter(tasks.values()))
    named = getattr(module, reference.class_name, None)
    if not (isinstance(named, type) and issubclass(named, Task)):
        found = ", ".join(tasks) or "no task"
        raise TrainerError(f"no task named {reference.class_name}", where=where, found=found)
    return named
