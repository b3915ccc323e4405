"""Trains in a separate process that is killed by SIGKILL after a given step, once its checkpoint is on disk.

python -P -m trainer.cli.killed_run ORDER STEP PARENT
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.cli.exit_codes import USER_MISTAKE
from trainer.cli.order import Order
from trainer.cli.starting import worker_environment

if TYPE_CHECKING:
    from trainer.cli.attempt import Attempt
    from trainer.configs import Loaded

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def run_killed(order: Order, step: int) -> int:
    """Executes an order until `step` is done; returns the exit code of its process, -9 on success."""
    command = [sys.executable, "-P", "-m", "trainer.cli.killed_run", order.to_json(), str(step), str(os.getpid())]
    return subprocess.run(command, stdin=subprocess.DEVNULL, env=worker_environment(), check=False).returncode


def _train(attempt: Attempt, loaded: Loaded, step: int, parent: int) -> int:
    from trainer.cli.follow import Printer
    from trainer.cli.forms import Form
    from trainer.cli.tasks import task_class
    from trainer.cli.worker import learner_for, watched

    task = task_class(loaded.task)
    from trainer.learner import Hook, Moment, TrainingHandle

    class Killed(Hook):
        """Ends the process once the checkpoint of the step is on disk."""

        order, is_inline = 1000, True

        def after_step(self, training: TrainingHandle, moment: Moment) -> None:
            if moment.step == step:
                training.saving.finish()
                os.kill(os.getpid(), KILL)

    shown = Printer(Form.PLAIN, sys.stderr).print_record
    with watched(attempt, loaded, parent=parent, also=shown) as (sink, watcher):
        learner = learner_for(attempt, loaded, task, sink, hooks=(Killed(),))
        watcher.hand_signals_to(learner.interrupt)
        outcome = learner.run()
    if outcome.exit_code:
        print(f"error: {outcome.reason}", file=sys.stderr)
    return outcome.exit_code


def main(words: list[str]) -> int:
    from trainer.cli.prepare import prepare
    from trainer.cli.watcher import die_with_parent

    order, step, parent = Order.from_json(words[0]), int(words[1]), int(words[2])
    die_with_parent(parent)
    try:
        return _train(*prepare(order), step, parent)
    except TrainerError as error:
        print(f"error: {error}", file=sys.stderr)
        return USER_MISTAKE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
