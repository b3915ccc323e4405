"""Shared by commands that examine a config's steps: creates a learner in this process and prints its events."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.learner import Learner
    from trainer.rundir import Event, RunPaths

HINT = "Set values as key=value, for instance data.batch_size=8. "
WIDTH = 80


def add_words(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the config or recipe, and values to set."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG_OR_RECIPE | key=value",
        help="a YAML file or a recipe's name, then values to set (a.b=c, a[0].b=c; parsed as YAML)",
    )


def learner_for_steps(
    words: Sequence[str],
    refusal: str | None,
    taken: Callable[[Event], bool] | None = None,
    *,
    paths: RunPaths | None = None,
    adapt: Callable[[RunConfig], RunConfig] = lambda config: config,
) -> Learner:
    """A learner without a run directory, whose events go to standard error unless `taken` handles them.

    Args:
        refusal: the error message for a device other than cpu; None: any device is allowed.
        paths: where the learner writes its files; None: no files.
        adapt: changes the config once it is loaded.

    Raises:
        TrainerError: the config is invalid, or not for the cpu device (message `refusal`).
    """
    import os
    import sys
    import time

    from trainer import TrainerError, configs
    from trainer.cli.batch_size import with_batch_size
    from trainer.cli.plain import PlainLines
    from trainer.cli.prepare import split_words
    from trainer.rundir import Record, process_age

    target, overrides = split_words(words, resuming=False)
    assert target is not None
    loaded = with_batch_size(configs.load(target, overrides))
    if refusal is not None and loaded.config.device != "cpu":
        raise TrainerError(refusal, found=f"device: {loaded.config.device}",
                           expected="device: cpu", hint="Add device=cpu.")  # fmt: skip
    begun, plain = time.time() - process_age(os.getpid()), PlainLines()

    def show(event: Event) -> None:
        if taken is not None and taken(event):
            return
        now = time.time()
        for line in plain.lines(Record(event, now, now - begun, 1)):
            print(line, file=sys.stderr, flush=True)

    from trainer.cli.tasks import task_class
    from trainer.cli.weights import with_weights

    task = task_class(loaded.task)
    from trainer.learner import Learner

    loaded = with_weights(loaded, show)
    return Learner(task, adapt(loaded.config), loaded.options, sink=show, paths=paths)
