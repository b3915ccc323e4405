"""Records training steps of a recipe, so that another framework can repeat them.

    record("digits", folder, steps=20, dtype="float64")

runs the recipe's task through the learner's traced step and writes to `folder`:

    config.json       the resolved configuration, with the task's options
    weights.npz       every parameter and buffer before the first step, by the names of the task's modules
    step-N.npz        step N (from 0): "batch/FIELD", the batch from the loader; "mask/PATH/DRAW", bool, the elements
                      that each dropout layer kept in its n-th call; "normal/NAME/DRAW", the step's draws from the
                      normal distribution; "rate/NAME", each optimizer's learning rate
    losses.json       the metrics of each step, one object per step
    test-N.npz        with `tested`: the batches of the test split; `metrics.json` has their metrics
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trainer import engine
from trainer.configs import load
from trainer.engine import DType, nn
from trainer.learner import Learner
from trainer.learner.device import device_for
from trainer.learner.task import Task, model_states
from trainer.learner.training import Training

DTYPES = {"float32": engine.float32, "float64": engine.float64}


def record(
    recipe: str,
    folder: Path,
    *,
    steps: int | None,
    dtype: str = "float32",
    overrides: Sequence[str] = (),
    tested: bool = False,
) -> list[dict[str, float]]:
    """Records the first `steps` steps (None: all steps of the recipe) in `folder`; returns the metrics of each step.

    Args:
        dtype: dtype of the networks' parameters, and so of all values computed from them.
        overrides: values of the configuration, such as "seed=1".
        tested: whether to evaluate the test split at the end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with prepared(recipe, overrides, DTYPES[dtype]) as training:
        config = {**training.config.model_dump(mode="json"), "options": training.task.options.model_dump(mode="json")}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return _recorded(training, folder, steps, tested)


def evaluated(recipe: str, overrides: Sequence[str], weights: Path) -> dict[str, float]:
    """Returns the recipe's metrics on the test split with the weights of a file, which have the task's names."""
    with prepared(recipe, overrides) as training:
        values = np.load(weights)
        for name, state in model_states(training.parts).items():
            state.set_value(values[name])
        (loader,) = training.splits.tests().values()
        metrics = training.records.evaluate(loader, "test")
        return {name: value for name, value in metrics.items() if not name.startswith("ema/")}


@contextmanager
def prepared(recipe: str, overrides: Sequence[str], dtype: DType = engine.float32) -> Iterator[Training]:
    """Prepares the recipe's training without starting it."""
    loaded = load(recipe, ["autotune.mode=off", "data.workers=0", *overrides])
    task_class = getattr(loaded.task.import_module(), loaded.task.class_name)
    with engine.device(device_for(loaded.config)):
        training = Learner(_in(dtype, task_class), loaded.config, loaded.options)._prepare()
        try:
            yield training
        finally:
            training.measuring.close()


def _in(dtype: DType, task_class: type[Task]) -> type[Task]:
    """Returns the task class with networks of another dtype, converted when they become its attributes."""

    class Typed(task_class):  # type: ignore[misc, valid-type]
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if isinstance(value, nn.Module):
                value.astype(dtype)

    return Typed


def _recorded(training: Training, folder: Path, steps: int | None, tested: bool) -> list[dict[str, float]]:
    draws = _watched(training)
    np.savez(folder / "weights.npz", **{name: state.numpy() for name, state in model_states(training.parts).items()})
    losses: list[dict[str, float]] = []
    loader = training.splits.train
    training.prepare()
    for step in range(steps or training.plan.total_steps):
        batch = loader.batch(*divmod(step, training.plan.steps_per_epoch))
        counter = training.state.random.counter.numpy().copy()
        rates = {f"rate/{name}": np.float64(optimizer.learning_rate.at(step))
                 for name, optimizer in training.parts.optimizers.items()}  # fmt: skip
        training.step(iter([batch]))
        drawn = {name: draw(counter).numpy() for name, draw in draws.items()}
        np.savez(folder / f"step-{step}.npz", **{f"batch/{name}": values for name, values in batch.items()}, **drawn,
                 **rates)  # fmt: skip
        losses.append(training.latest())
        training.measuring.train.reset()
    (folder / "losses.json").write_text(json.dumps(losses), encoding="utf-8")
    if tested:
        _tested(training, folder)
    return losses


def _watched(training: Training) -> dict[str, Callable[[np.ndarray], engine.Tensor]]:
    """Returns a mapping that is filled while the step is traced. It has each random draw as a function of the random
    state's counter: those of dropout as "mask/PATH/DRAW", those of the normal distribution as "normal/PATH/DRAW".
    """
    random, draws = training.state.random, dict[str, Callable[[np.ndarray], engine.Tensor]]()
    bernoulli, normal = random.bernoulli, random.normal

    def noted_mask(path: str, probability: float, shape: tuple[int, ...]) -> engine.Tensor:
        number = random._draws.get(path, 0)
        key = engine.random.key_for(random.seed, path, number)
        draws[f"mask/{path}/{number}"] = lambda counter: engine.random.bernoulli(key, counter, probability, shape)
        return bernoulli(path, probability, shape)

    def noted_normal(path: str, shape: tuple[int, ...]) -> engine.Tensor:
        number = random._draws.get(path, 0)
        key = engine.random.key_for(random.seed, path, number)
        draws[f"normal/{path}/{number}"] = lambda counter: engine.random.normal(key, counter, shape)
        return normal(path, shape)

    random.bernoulli, random.normal = noted_mask, noted_normal  # type: ignore[method-assign]
    return draws


def _tested(training: Training, folder: Path) -> None:
    (loader,) = training.splits.tests().values()
    for number in range(loader.steps_per_epoch):
        np.savez(folder / f"test-{number}.npz", **{f"batch/{name}": values
                                                   for name, values in loader.batch(0, number).items()})  # fmt: skip
    (folder / "metrics.json").write_text(json.dumps(training.records.evaluate(loader, "test")), encoding="utf-8")
