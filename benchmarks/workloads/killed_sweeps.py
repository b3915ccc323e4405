"""Kills the command of sweeps by SIGKILL, starts it again, and compares each sweep with its expected trials."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness import checkout_environment

from trainer import TrainerError, configs
from trainer.cli.sweep.search import Search
from trainer.rundir import EndEvent, MetricEvent, RunEvent, read_events
from trainer.rundir.sweeps import SweepPaths, SweepState, read_state

STEPS = 12
CONFIG = f"""\
extends: digits
train: {{steps: {STEPS}, epochs: null, log_every_steps: 3}}
data: {{batch_size: 50, reader: {{fractions: {{valid: 0.05, test: 0.85}}}}}}
validate: {{every_steps: 4}}
checkpoint: {{every_steps: 4}}
threads: 1
sweep:
  parameters:
    optimizer.learning_rate: {{low: 1.0e-4, high: 1.0e-1, log: true}}
    options.dropout: {{low: 0.0, high: 0.5}}
  method: random
"""
PATIENCE_SECONDS = 1200.0


class KilledSweep:
    """A sweep of `digits` in `folder`, on two workers.

    Args:
        place: value of the option `--on`.
    """

    def __init__(self, folder: Path, trials: int, *, place: str = "local", parallel: int = 2, seed: int = 0) -> None:
        self.folder, self._trials, self._random = folder, trials, random.Random(seed)
        (folder / "search.yaml").write_text(f"{CONFIG}  trials: {trials}\n  parallel: {parallel}\n")
        self.paths = SweepPaths(folder / "sweeps" / "killed")
        words = ["sweep", "search.yaml", "--name", "killed", "--json", "--on", place]
        self._command = [sys.executable, "-P", "-m", "trainer.cli", *words]

    def run(self, kills: int) -> None:
        """Runs the sweep to its end, and kills the command after numbers of trials that the seed decides."""
        for complete in sorted(self._random.sample(range(1, self._trials - 2), kills)):
            with self._started() as process:
                deadline = time.monotonic() + PATIENCE_SECONDS
                while self._complete() < complete:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError(f"the sweep ended or hangs before trial {complete}")
                    time.sleep(0.05)
                time.sleep(self._random.random())
                process.kill()
            print(f"killed after {self._complete()} complete trials", file=sys.stderr, flush=True)
        with self._started() as process:
            if code := process.wait(PATIENCE_SECONDS):
                raise RuntimeError(f"the sweep ended with exit code {code}")

    def sound_trials(self) -> int:
        """Returns the number of correct trials: with the expected values, one complete training, and a result."""
        expected = self._expected()
        state = read_state(self.paths)
        problems = [
            problem
            for trial, values in itertools.zip_longest(state.trials, expected)
            if (problem := self._problem(state, None if trial is None else trial.number, values))
        ]
        for problem in problems:
            print(problem, file=sys.stderr, flush=True)
        return len(expected) - len(problems)

    def overheads(self) -> list[float]:
        """Returns the seconds from the end of each run except the last to the next run's first event, on one worker."""
        heads = [self._times(trial.number) for trial in read_state(self.paths).trials]
        return [later[0] - earlier[1] for earlier, later in itertools.pairwise(heads)]

    def start_seconds(self) -> float:
        """Returns the seconds from the start of the command to the first event of one such run, without a sweep."""
        words = ["run", str(self.paths.best), "--run-dir", "alone", "--plain"]
        began = time.time()
        subprocess.run(
            [sys.executable, "-P", "-m", "trainer.cli", *words], cwd=self.folder, check=True,
            stdout=subprocess.DEVNULL, env=checkout_environment(),
        )  # fmt: skip
        return next(iter(read_events(self.folder / "alone" / "events.jsonl"))).time - began

    def _times(self, number: int) -> tuple[float, float]:
        """Returns the times of a run's first and last events."""
        records = list(read_events(self.paths.run(number, 0, 1).events))
        return records[0].time, records[-1].time

    def _problem(self, state: SweepState, number: int | None, values: object) -> str:
        """Describes the problem of a trial; empty if there is none."""
        if number is None or values is None:
            return f"trial {number} instead of {values}"
        trial = state.trials[number]
        if trial.state != "complete" or trial.parameters != values:
            return f"trial {number}: {trial}, expected {values}"
        events = [record.event for record in read_events(self.paths.run(number, 0, 1).events)]
        ends = [event for event in events if isinstance(event, EndEvent) and event.status == "done"]
        trained = [event.step for event in events if isinstance(event, MetricEvent) and event.split == "train"]
        starts = sum(isinstance(event, RunEvent) for event in events)
        if len(ends) != 1 or ends[0].step != STEPS or trained.count(STEPS) != 1:
            return f"trial {number}: {len(ends)} ends after {starts} starts, last step logged {trained.count(STEPS)}×"
        return ""

    def _expected(self) -> Sequence[object]:
        """Returns the values that a sweep draws if it is never killed."""
        config = configs.load(str(self.folder / "search.yaml")).config
        assert config.sweep is not None
        (self.folder / "never-killed").mkdir(exist_ok=True)
        search = Search(SweepPaths(self.folder / "never-killed"), config.sweep, mode="min", seed=config.seed)
        return [json.loads(json.dumps(dict(search.ask().parameters))) for _ in range(self._trials)]

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command, cwd=self.folder, env=checkout_environment(), stdout=subprocess.DEVNULL
        )  # fmt: skip

    def _complete(self) -> int:
        try:
            return read_state(self.paths).count("complete")
        except TrainerError:
            return 0  # no trial yet
