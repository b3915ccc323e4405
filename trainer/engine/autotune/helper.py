"""The helper process: `python -P -m trainer.engine.autotune.helper`, started and ended by `process.Helper`.

It reads jobs from standard input and answers on standard output, one at a time:

    job       8 bytes of length, then a pickled `Job` (safe to unpickle: the parent wrote it)
    answer    a line of JSON, then `size` bytes of code (the parent reads both as data and unpickles nothing)

A candidate may abort, loop, or write to any address: then this process dies, and the parent derives the reason from the
exit status. The process has a memory limit, a processor time limit for each job, and with "idle" the lowest priority.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any, BinaryIO

from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.bench import Bench, Outcome
from trainer.engine.targets.cpu.lowering.launch import Tunable

LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Job:
    """A request to compare `candidate` with the parameters of `default`; `deadline` in seconds of processor time."""

    default: Tunable
    candidate: Any
    target: native.Target
    deadline: float


def serve(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answers jobs until the input ends."""
    bench: Bench | None = None
    while header := jobs.read(LENGTH_BYTES):
        job: Job = pickle.loads(jobs.read(int.from_bytes(header, "little")))
        signal.setitimer(signal.ITIMER_PROF, job.deadline)  # its default action ends the process
        reference = 0.0
        try:
            if bench is None or bench.tunable != job.default:
                bench = None  # frees its memory before the next one allocates
                bench = Bench(job.default, job.target)
            reference = bench.default.seconds
            outcome = bench.default if bench.default.reason else bench.attempt(job.candidate)
        except MemoryError:
            bench, outcome = None, Outcome("memory")
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            outcome = Outcome("failed")
        signal.setitimer(signal.ITIMER_PROF, 0)
        if outcome.reason == "out_of_bounds":
            bench = None  # the candidate wrote outside its memory
        answer = {"reason": outcome.reason, "seconds": outcome.seconds, "default_seconds": reference}
        answer |= {"processor_seconds": time.process_time(), "name": outcome.name, "size": len(outcome.code)}
        answers.write(json.dumps(answer).encode() + b"\n" + outcome.code)
        answers.flush()


def _step_back() -> None:
    """Sets the lowest priority."""
    with contextlib.suppress(OSError):
        os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main(arguments: list[str]) -> None:
    """Serves jobs. `arguments`: the memory limit in bytes, then optionally "idle" for the lowest priority."""
    import resource

    memory, *further = arguments
    if "idle" in further:
        _step_back()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to end
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of native code must not mix with answers
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main(sys.argv[1:])
