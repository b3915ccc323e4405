"""Recipes next to plain PyTorch after the same minutes: the same network, first weights, order of data, optimizer and
schedule, for as long as our whole command took.

PyTorch (`workloads/torch_timed.py`) trains a recipe's twin (`workloads/twin_NAME.py`) eagerly, with its fused
optimizer. The recipe's own loader makes its batches, in this process, while it computes. Its learning rate goes by the
fraction of the time, so that a slower or a faster training has the whole schedule. Its start and its validations, as
many as the recipe's, are part of the time, as they are of ours. Our recipe evaluates the weights that PyTorch chose on
the validation split on the test split, after that time.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import IO

from trainer.engine.targets.cpu.topology import available_threads
from trainer.learner.task import model_states
from trainer.learner.training import Training

FOLDER = Path(__file__).parent / "workloads"
sys.path.insert(0, str(FOLDER))


def after_the_same_minutes(
    recipe: str, python: str, overrides: Sequence[str], seconds: float
) -> tuple[dict[str, float], int]:
    """The metrics on the test split of PyTorch's training, as the recipe names them, and the number of its steps.

    Args:
        python: an interpreter that has PyTorch.
        overrides: the configuration of our training.
        seconds: how long ours took.

    Raises:
        RuntimeError: PyTorch's process failed.
    """
    from recorded import evaluated, prepared

    with tempfile.TemporaryDirectory() as name, prepared(recipe, overrides) as training:
        beginning, is_averaged = _beginning(training), _chooses_averages(training)
        command = (python, str(FOLDER / "torch_timed.py"), recipe, name, f"--threads={available_threads()}")
        environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}  # the loader needs a thread's time, too
        beginning["end"] = time.monotonic() + seconds
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdin is not None and process.stdout is not None
            _stream(beginning, training, process.stdin)
            answer = process.stdout.read()
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
        metrics = evaluated(recipe, overrides, Path(name) / "twin.npz")
    return {f"ema/{key}" if is_averaged else key: value for key, value in metrics.items()}, json.loads(answer)["steps"]


def _beginning(training: Training) -> dict[str, object]:
    config, plan, valid = training.config, training.plan, training.splits.valid
    assert valid is not None
    every = (config.validate.every_epochs or 1) * plan.steps_per_epoch
    return {
        "config": {**config.model_dump(mode="json"), "options": training.task.options.model_dump(mode="json")},
        "weights": {name: state.numpy() for name, state in model_states(training.parts).items()},
        "rates": {name: [float(optimizer.learning_rate.at(step)) for step in range(plan.total_steps)]
                  for name, optimizer in training.parts.optimizers.items()},
        "every": every / plan.total_steps,
        "valid": [valid.batch(0, number) for number in range(valid.steps_per_epoch)],
    }  # fmt: skip


def _chooses_averages(training: Training) -> bool:
    best = training.config.checkpoint.best
    return best is not None and best.metric.startswith("valid/ema/")


def _stream(beginning: dict[str, object], training: Training, stream: IO[bytes]) -> None:
    """Writes the beginning of a training, then batches, one ahead of the reader, until the reader ends."""
    with contextlib.suppress(BrokenPipeError), stream:
        pickle.dump(beginning, stream)
        for step in count():
            pickle.dump(training.splits.train.batch(*divmod(step, training.plan.steps_per_epoch)), stream)
            stream.flush()
