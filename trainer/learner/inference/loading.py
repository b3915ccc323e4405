"""Loads a model for prediction from a checkpoint: the task is built from the checkpoint's facts, without its data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.learner.device import device_for
from trainer.learner.inference.model import About, Model
from trainer.learner.inference.restoring import built, load_weights, uses_averages
from trainer.learner.programs import set_mode
from trainer.learner.progress import other_versions
from trainer.learner.task import CATEGORY_IDS, Task, parts_of

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
    """The model of the checkpoint in `folder` with this `state`.

    `make_task` creates a new task, for its own data or for that of another folder. Warns about package versions that
    differ from those of its training and affect results bit for bit.

    Raises:
        TrainerError: the weights are damaged or don't belong to the task, or the task doesn't support inference.
    """
    monitored = None if config.checkpoint.best is None else config.checkpoint.best.metric
    is_averaged = uses_averages(config)
    if found := other_versions(state["versions"]):
        warnings.warn(f"{found}: predictions may round differently than in validation.", stacklevel=3)
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
        from trainer.learner.inference.evaluation import (
            evaluate_on,
        )  # imports everything that computes metrics; predicting doesn't need it

        return evaluate_on(make_task(data), folder, state, **settings)

    def export(model: Model, path: Path, **options: Any) -> Path:
        from trainer.learner.exported.model import export_model

        return export_model(model, path, state=state, config=config, averaged=is_averaged, **options)

    return Model(
        task.pipeline, about, device=device_for(config), precision=config.train.precision,
        evaluate=evaluate, export=export,
    )  # fmt: skip
