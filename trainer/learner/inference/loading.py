"""From a checkpoint to a model that predicts: the task is built from what the checkpoint says, without its data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.learner.checkpoints import Checkpoint, read_group, restore
from trainer.learner.device import device_for
from trainer.learner.inference.model import About, Model
from trainer.learner.measuring import AVERAGED
from trainer.learner.programs import set_mode
from trainer.learner.progress import other_versions
from trainer.learner.task import CATEGORY_IDS, Plan, Task, model_states, parts_of, take_facts

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.learner.inference.evaluation import EvaluationReport


def model_from(
    folder: Path,
    state: Mapping[str, Any],
    make_task: Callable[[Path | None], Task],
    *,
    config: RunConfig,
    weights: str,
) -> Model:
    """The model of the checkpoint in `folder`, whose `state` was read.

    `make_task` makes a new task, for its own data or for that of another folder.
    Other versions of the packages that decide about bits than those that trained it are a warning.

    Raises:
        TrainerError: the weights are damaged or not the task's, or the task does not say how it predicts.
    """
    monitored = None if config.checkpoint.best is None else config.checkpoint.best.metric
    is_averaged = uses_averages(config)
    if found := other_versions(state["versions"]):
        warnings.warn(f"{found}: predictions may round in another way than in validation.", stacklevel=3)
    task = built(make_task(None), state)
    load_weights(task, folder, is_averaged=is_averaged)
    set_mode(task, is_training=False)
    ids = state["facts"][CATEGORY_IDS]
    about = About(
        task=config.name or config.task,
        source=str(folder),
        weights=f"{weights}, averaged" if is_averaged else weights,
        metrics={name: float(value) for name, value in state["metrics"].items()},
        parameters=sum(
            parameter.size for module in parts_of(task).modules.values() for parameter in module.parameters()
        ),
        category_ids=None if ids is None else tuple(ids),
        monitored=monitored,
    )

    def evaluate(data: Path | None, **settings: Any) -> EvaluationReport:
        from trainer.learner.inference.evaluation import evaluate_on  # needs all that measures; predicting does not

        return evaluate_on(make_task(data), folder, state, **settings)

    return Model(task.pipeline(), about, device=device_for(config), precision=config.train.precision, evaluate=evaluate)


def uses_averages(config: RunConfig) -> bool:
    """Whether a model of this config's runs has the averaged weights: where the metric that chooses is of these, or
    where there is none."""
    if config.train.ema is None:
        return False
    best = config.checkpoint.best
    return best is None or best.metric.partition("/")[2].startswith(AVERAGED)


def built(task: Task, state: Mapping[str, Any]) -> Task:
    """The task with its modules, as the training that the state is of has built it."""
    take_facts(task, state["facts"])
    task.plan = Plan(int(state["steps_per_epoch"]), int(state["total_steps"]))
    task.build()
    return task


def load_weights(task: Task, folder: Path, *, is_averaged: bool) -> None:
    """Give the task's modules the weights of a checkpoint.

    Raises:
        TrainerError: they are damaged, missing or of another model.
    """
    stem = "ema" if is_averaged else "model"
    arrays = read_group(folder, stem)
    restore(Checkpoint({stem: arrays}, {}), {stem: model_states(parts_of(task))}, where=str(folder))
