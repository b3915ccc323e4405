"""Recipes compared with plain PyTorch after equal time: the same network, initial weights, order of data, optimizer and
schedule, trained for the wall time of our whole command.

PyTorch (`workloads/torch_timed.py`) trains a recipe's twin (`workloads/twin_NAME.py`) in eager mode, with its fused
optimizer. The recipe's own loader prepares the batches in this process while PyTorch computes. The learning rate
follows the elapsed fraction of the time, so a slower or a faster training completes the whole schedule. As in our run,
the time includes startup and validations; PyTorch validates as often as the recipe. After that time, our recipe
evaluates on the test split the weights that PyTorch chose on the validation split.
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
    """Trains in PyTorch; returns the metrics on the test split, with the recipe's names, and the number of steps.

    Args:
        python: an interpreter that has PyTorch.
        overrides: configuration overrides of our training.
        seconds: wall time of our training.

    Raises:
        RuntimeError: PyTorch's process failed.
    """
    from recorded import evaluated, prepared

    with tempfile.TemporaryDirectory() as name, prepared(recipe, overrides) as training:
        beginning, is_averaged = _beginning(training), _chooses_averages(training)
        command = (python, str(FOLDER / "torch_timed.py"), recipe, name, f"--threads={available_threads()}")
        environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}  # spinning threads would take time from the loader
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
    """Writes the initial state of a training, then batches, one ahead of the reader, until the reader exits."""
    with contextlib.suppress(BrokenPipeError), stream:
        pickle.dump(beginning, stream)
        for step in count():
            pickle.dump(training.splits.train.batch(*divmod(step, training.plan.steps_per_epoch)), stream)
            stream.flush()
