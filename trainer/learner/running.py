"""Runs a task's programs: reports first runs as phases, and runs actions after a step has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from trainer.learner.deferred_actions import DeferredActions
from trainer.learner.failures import out_of_memory
from trainer.learner.phases import CompilePhases
from trainer.learner.programs import Program
from trainer.learner.ranks import ALONE, Group
from trainer.learner.ranks.pace import STEP
from trainer.learner.stopwatch import Stopwatch
from trainer.learner.tally import Handed
from trainer.rundir import EventSink

if TYPE_CHECKING:
    from trainer.configs import RunConfig


class Runner:
    """Runs programs.

    Args:
        check: called during compilation; its exceptions end the compilation.

    Attributes:
        stopwatch: measures the time of steps, without compilation.
        deferred: actions that wait for the last step.
    """

    def __init__(self, config: RunConfig, tell: EventSink, check: Callable[[], None], group: Group = ALONE) -> None:
        self.stopwatch, self.deferred, self._group = Stopwatch(), DeferredActions(), group
        self._config, self._check, self._phases = config, check, CompilePhases(tell)
        group.pace.is_asynchronous = config.device not in ("cpu", "reference")

    def __call__(
        self, program: Program, name: str, batch: Mapping[str, Any], *flags: bool, then: Callable[[list[Handed]], None]
    ) -> None:
        """Runs a program on a batch, and calls `then` with its result, unless `DeferredActions` has a verdict.

        Raises:
            TrainerError: processes have batches of different shapes.
        """
        if self._group.size > 1:  # kernels depend on shapes: different padding would change the bits
            self._group.require_same(
                {"the shapes of a batch": {name: array.shape for name, array in batch.items()}},
                hint="Set fixed sizes, such as data.max_objects, data.max_tokens or one of data.image_sizes.",
            )
        handed = self._run(program, name, batch, flags)
        self.deferred.submitted(program.fence)
        self.deferred.add(partial(then, handed))

    def compiling(self, done: int, total: int, now: str) -> None:
        """Reports the progress of compilation."""
        self._phases.report(done, total, now)
        self._check()

    def _run(self, program: Program, name: str, batch: Mapping[str, Any], flags: tuple[bool, ...]) -> list[Handed]:
        try:
            if program.has_run(*flags):
                with self._group.pace.during(STEP):
                    handed = program(batch, *flags)
                self.stopwatch.count(self._group.size * len(next(iter(batch.values()))))
                return handed
            with self.stopwatch.paused(), self._phases.watching(name):
                return program(batch, *flags)
        except MemoryError as error:
            raise out_of_memory(name, program.memory(), self._config, error) from error
