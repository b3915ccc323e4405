"""`trainer.run(...)`: the equivalent of `trainer run` in the caller's process: a notebook, a script.

    check the config → make the run directory → import the engine and the task → Learner.run() → Result

Nothing is detached. Ctrl-C writes a checkpoint first, and so do signals that would end the process, unless other code
handles them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from trainer import TrainerError, configs
from trainer.cli.exit_codes import BY_SIGNAL, INTERRUPTED, TERMINATED
from trainer.cli.file_checks import Surroundings
from trainer.cli.forms import Form
from trainer.cli.live import live_table
from trainer.cli.order import Order
from trainer.cli.prepare import AUTO, attempt_of
from trainer.cli.watcher import SAME_WISH_SECONDS
from trainer.configs.custom_class import forget_own_code
from trainer.rundir import EndEvent, Event, Metrics, Record, Run, open_run

if TYPE_CHECKING:
    from trainer.configs import Loaded, RunConfig
    from trainer.learner import Hook, Learner, Outcome, Task


@dataclass(frozen=True)
class Result:
    """The result of a training run: done, stopped or interrupted.

    Attributes:
        run: its run directory; None with keep=False.
        history: every metric of the run as arrays, by "split/name".
        task: the task with its networks, trained.
        outcome: how it ended.
    """

    run: Run | None
    history: Metrics
    task: Task
    outcome: Outcome

    @property
    def status(self) -> str:
        """done, stopped or interrupted."""
        return self.outcome.status

    @property
    def step(self) -> int:
        """The number of completed steps."""
        return self.outcome.step

    @property
    def metrics(self) -> Mapping[str, float]:
        """The last values, by "split/name"."""
        return self.outcome.metrics

    def __repr__(self) -> str:
        numbers = "".join(f", {name} {value:.4g}" for name, value in self.metrics.items())
        place = f" in {self.run.paths.root}" if self.run is not None else ""
        return f"<{self.status} at step {self.step}{place}{numbers}>"


def run(
    config: str | os.PathLike[str] | Mapping[str, Any] | RunConfig | None = None,
    *,
    run_dir: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    force: bool = False,
    keep: bool = True,
    show: bool = True,
    hooks: Sequence[Hook | Mapping[str, Any]] = (),
    **overrides: Any,
) -> Result:
    """Trains in this process until training is done, or stopped by request or Ctrl-C (after a checkpoint; a second
    Ctrl-C stops immediately).

    After a SIGTERM the checkpoint is written and the process ends, with exit code 143.

        result = trainer.run("digits", train={"epochs": 2}, seed=1)
        result = trainer.run({"extends": "digits", "optimizer": {"name": "adam", "learning_rate": 1e-3}})
        result = trainer.run(resume=result.run.paths.root, **{"train.epochs": 4})

    Progress is a table in a notebook, otherwise lines of key=value.

    Args:
        config: a recipe's name, a YAML file, or its content as plain data.
        run_dir: the run's directory, new or empty; by default runs/NAME, as with the command.
        resume: a run to resume from its latest checkpoint, or a checkpoint, instead of `config`; "auto", with a config
            that has a name: resume that run, or start it if it doesn't exist.
        force: with `resume`: accept changed values that contradict the saved state.
        keep: False: no run directory, no checkpoints.
        show: False: print nothing.
        hooks: hooks in addition to those of the config; mappings have the form of `hooks:`.
        overrides: values that replace those of the config, by key; mappings are merged key by key.

    Raises:
        TrainerError: the config or the data are invalid, or the training diverged.
        Exception: any other failure of the training.
    """
    if (config is None) != (resume not in (None, AUTO)):
        raise TrainerError("nothing to train", expected="a config, or `resume` with a run, but not both")
    named = [dict(hook) for hook in hooks if isinstance(hook, Mapping)]
    if named:
        overrides["hooks"] = named
    own_hooks = [hook for hook in hooks if not isinstance(hook, Mapping)]
    forget_own_code()
    if keep:
        order = Order((), os.getpid(), ("trainer.run",), run_dir=_path(run_dir), resume=_path(resume), force=force)
        return _run_kept(order, _plain(config), overrides, own_hooks, show=show)
    if run_dir is not None or resume is not None:
        raise TrainerError("run_dir is set, but keep=False keeps no run directory", hint="Remove keep=False.")
    target = _plain(config)
    assert target is not None
    from trainer.cli.batch_size import with_batch_size

    loaded = with_batch_size(configs.load(target, overrides, rules=[Surroundings().problems]))
    return _run_only(loaded, own_hooks, show=show)


def _run_kept(
    order: Order, target: str | Mapping[str, Any] | None, overrides: Mapping[str, Any], hooks: Sequence[Hook], *,
    show: bool,
) -> Result:  # fmt: skip
    attempt, loaded = attempt_of(order, target, overrides, process_start=time.time())
    from trainer.cli.tasks import task_class
    from trainer.cli.worker import learner_for, watched

    task = task_class(loaded.task)
    with watched(attempt, loaded, also=_shown(loaded) if show else None, is_guest=True) as (sink, _):
        learner = learner_for(attempt, loaded, task, sink, hooks=hooks)
        try:
            outcome = _until_interrupted(learner)
        except (KeyboardInterrupt, SystemExit) as error:
            code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else TERMINATED
            sink(EndEvent("interrupted", code, sink.step, reason="interrupted twice"))
            raise
    outcome.check()
    after = open_run(attempt.paths.root)
    return Result(after, after.metrics, learner.task, outcome)


def _run_only(loaded: Loaded, hooks: Sequence[Hook], *, show: bool) -> Result:
    from trainer.cli.tasks import task_class
    from trainer.cli.weights import with_weights
    from trainer.learner import Learner

    history, began = Metrics(), time.time()
    shown = _shown(loaded) if show else None

    def sink(event: Event) -> None:
        now = time.time()
        record = Record(event, now, now - began, 1)
        history.add(record)
        if shown is not None:
            shown(record)

    loaded = with_weights(loaded, sink)
    learner = Learner(task_class(loaded.task), loaded.config, loaded.options, sink=sink, hooks=hooks)
    outcome = _until_interrupted(learner).check()
    return Result(None, history, learner.task, outcome)


def _until_interrupted(learner: Learner) -> Outcome:
    with _interrupts_go_to(learner.interrupt):
        outcome = learner.run()
    if outcome.exit_code == TERMINATED:  # as without this context, but after a checkpoint
        raise SystemExit(TERMINATED)
    return outcome


@contextmanager
def _interrupts_go_to(interrupt: Callable[[int], None]) -> Iterator[None]:
    """Inside this context, the first Ctrl-C goes to the learner; a later one raises KeyboardInterrupt as usual.

    SIGTERM and SIGHUP, unless other code handles or ignores them, also go to the learner and then end the process; a
    second one ends it immediately.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if not first:
            first.append(time.monotonic())
            interrupt(number if number == signal.SIGINT else signal.SIGTERM)
        elif time.monotonic() - first[0] > SAME_WISH_SECONDS:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            raise SystemExit(TERMINATED)

    taken = [number for number in BY_SIGNAL
             if number == signal.SIGINT or signal.getsignal(number) is signal.SIG_DFL]  # fmt: skip
    before = {number: signal.signal(number, handle) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _shown(loaded: configs.Loaded) -> Callable[[Record], None]:
    """Shows records: as a table in a notebook, as lines otherwise."""
    table = live_table()
    if table is not None:
        return table
    from trainer.cli.follow import Printer

    best = loaded.config.checkpoint.best
    return Printer(Form.PLAIN, sys.stdout, None if best is None else best.metric).print_record


def _plain(config: str | os.PathLike[str] | Mapping[str, Any] | RunConfig | None) -> str | Mapping[str, Any] | None:
    if config is None or isinstance(config, str | Mapping):
        return config
    if isinstance(config, configs.RunConfig):
        plain: dict[str, Any] = config.model_dump(mode="json", by_alias=True)
        return plain
    return os.fspath(config)


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)
