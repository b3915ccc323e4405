"""A user's task for tests of processes: it puts a stand-in in the learner's place that does what its options say.

So that these tests are about processes, signals and files alone, and start in the time of a bare interpreter.
"""

import itertools
import os
import signal
import sys
import time
import types

from trainer import TrainerError
from trainer.rundir import CheckpointEvent, EndEvent, MetricEvent, PhaseEvent, RequestEvent, ResumedEvent


class Task:
    """Base of tasks, as the learner's is."""


class Scripted(Task):
    """Named by config.yaml."""


class Outcome:
    def __init__(self, error=None):
        self.error = error


class Stop(Exception):
    """status, exit code, reason"""


class Learner:
    def __init__(self, task_class, config, options, *, paths, sink, requests, attempt, resume, is_forced):
        assert task_class is Scripted
        self.script, self.paths, self.sink, self.requests, self.resume = options.script, paths, sink, requests, resume
        self.signal, self.steps = 0, itertools.count(1)

    def interrupt(self, number):
        self.signal = number

    def run(self):
        step = 0
        if self.resume is not None:
            step = max(int(path.name[5:]) for path in self.resume.glob("checkpoints/step-*"))
            self.sink(ResumedEvent(step, f"checkpoints/step-{step}"))
            self.steps = itertools.count(step + 1)
        error = None
        try:
            self.sink(PhaseEvent("train", "started"))
            getattr(self, self.script)()
            end = EndEvent("done", 0, step, 0.1, {"test/accuracy": 0.5})
        except Stop as stop:
            status, code, reason = stop.args
            end = EndEvent(status, code, step, 0.1, {}, reason)
        except TrainerError as mistake:
            error, end = mistake, EndEvent("failed", 2, step, 0.1, {}, str(mistake))
        self.sink(end)
        return Outcome(error)

    def finish(self):
        for _ in range(3):
            self.step()

    def chatter(self):
        print("a line of its log", flush=True)
        self.loop()

    def loop(self):
        while True:
            step = self.step()
            if self.signal:
                (self.paths.checkpoints / f"step-{step}").mkdir()
                self.sink(CheckpointEvent(step, f"checkpoints/step-{step}", reasons=("stopped",)))
                raise Stop("interrupted", 128 + self.signal, f"interrupted by {signal.Signals(self.signal).name}")
            for request in self.requests():
                self.sink(RequestEvent(request.id, request.what, "done"))
                if request.what == "checkpoint":
                    folder = self.paths.checkpoints / f"step-{step}"
                    folder.mkdir()
                    (folder / "manifest.json").write_text("{}")
                    (self.paths.checkpoints / "latest").write_text(folder.name)
                    self.sink(CheckpointEvent(step, f"checkpoints/step-{step}", reasons=("requested",)))
                if request.what == "stop":
                    raise Stop("stopped", 0, "stopped by request")
            time.sleep(0.005)

    def outlive(self):
        self.step()
        while self.paths.root.exists():
            time.sleep(0.005)

    def stuck(self):
        self.step()
        while True:
            time.sleep(3600)

    def mistake(self):
        raise TrainerError("the pictures are upside down", where="train.json", hint="Turn them.")

    def failure(self):
        raise ZeroDivisionError("one by nought")

    def vanish(self):
        print("a last line in the log", flush=True)
        os._exit(7)

    def fill(self):
        for _ in range(100_000):
            self.step()

    def step(self):
        step = next(self.steps)
        self.sink(MetricEvent(step, step / 10, "train", {"loss": 1 / step}))
        return step


learner = types.ModuleType("trainer.learner")
learner.Learner, learner.Task = Learner, Task
checkpoints = types.ModuleType("trainer.learner.checkpoints")
checkpoints.steps_in = lambda folder: sorted(int(path.name[5:]) for path in folder.glob("step-*"))
sys.modules.update({"trainer.learner": learner, "trainer.learner.checkpoints": checkpoints})
