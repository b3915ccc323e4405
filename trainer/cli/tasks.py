"""From a task's reference to its class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.configs import TaskReference
from trainer.configs.own import own_mistake

if TYPE_CHECKING:
    from trainer.learner import Task


def task_class(reference: TaskReference) -> type[Task]:
    """Import the task's module and find its class: the one that was named, or the module's only public task.

    Raises:
        TrainerError: the module has no such class, or several tasks and none was named; what a module of the user's
            raises, with its lines.
        Exception: whatever a recipe's module raises.
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
                "which class is the task?", where=where, found=", ".join(tasks) or "none", expected="one"
            )
        return next(iter(tasks.values()))
    named = getattr(module, reference.class_name, None)
    if not (isinstance(named, type) and issubclass(named, Task)):
        found = ", ".join(tasks) or "no task"
        raise TrainerError(f"no task called {reference.class_name}", where=where, found=found)
    return named
