"""The parent's side of the helper process: sends jobs, receives answers; the process's death is an answer too."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import IO, Any

from trainer.engine.autotune.helper import LENGTH_BYTES, Job

MEMORY_BYTES = 4 << 30
STANDSTILL_SECONDS = 600.0
"""Seconds of wall time after which a job is abandoned, regardless of its deadline in processor time."""

_BY_SIGNAL = {
    signal.SIGPROF: "timeout",
    signal.SIGSEGV: "out_of_bounds",
    signal.SIGBUS: "out_of_bounds",
    signal.SIGABRT: "aborted",
    signal.SIGILL: "aborted",
    signal.SIGFPE: "aborted",
    signal.SIGKILL: "memory",  # the system ran out of it
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a job: `reason` is empty if the candidate may be used; `code` exports `name`.

    seconds and default_seconds are on one thread; processor_seconds is the cost of the job.
    """

    reason: str
    seconds: float = 0.0
    default_seconds: float = 0.0
    processor_seconds: float = 0.0
    name: str = ""
    code: bytes = b""


class Helper:
    """One helper process, started with the first job, and again after a job that crashed it."""

    def __init__(self, *, idle: bool, memory: int = MEMORY_BYTES) -> None:
        self._options = [str(memory), *(["idle"] if idle else [])]
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._received = b""
        self._spent = 0.0
        self._asked: float | None = None

    def ask(self, job: Job) -> None:
        """Sends a job; `poll` returns the answer."""
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        self._asked = time.monotonic()
        blob = pickle.dumps(job)
        try:
            self._process.stdin.write(len(blob).to_bytes(LENGTH_BYTES, "little") + blob)
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # it has died: `poll` reports it

    def poll(self, seconds: float = 0.0) -> Answer | None:
        """Returns the answer if it arrives within `seconds`, else None."""
        if self._process is None or self._asked is None:
            return None
        assert self._process.stdout is not None
        until = time.monotonic() + seconds
        while True:
            answer = self._parse()
            if answer is not None:
                self._asked = None
                return answer
            if not select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                if time.monotonic() - self._asked > STANDSTILL_SECONDS:
                    self._kill()
                    return self._ended("timeout")
                return None
            chunk = os.read(self._process.stdout.fileno(), 1 << 20)
            if not chunk:
                return self._ended()
            self._received += chunk

    def close(self) -> None:
        """Ends the process immediately."""
        if self._process is not None:
            self._kill()
            self._ended()

    def _kill(self) -> None:
        """Kills the process. Popen.kill would collect its exit status if a signal to the group has ended it."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)

    def _start(self) -> None:
        self._errors, self._received, self._spent = tempfile.TemporaryFile(), b"", 0.0  # noqa: SIM115, closed at its end
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "trainer.engine.autotune.helper", *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )

    def _parse(self) -> Answer | None:
        end = self._received.find(b"\n")
        if end < 0:
            return None
        values: dict[str, Any] = json.loads(self._received[:end])
        size = values.pop("size")
        if len(self._received) < end + 1 + size:
            return None
        code, self._received = self._received[end + 1 : end + 1 + size], self._received[end + 1 + size :]
        spent, self._spent = values["processor_seconds"] - self._spent, values["processor_seconds"]
        return Answer(**{**values, "processor_seconds": spent}, code=code)

    def _ended(self, reason: str = "") -> Answer:
        """Collects the ended process and returns the reason of its end, "failed" if unknown, as an answer."""
        process, errors = self._process, self._errors
        assert process is not None and errors is not None
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # the process can't read the remaining input
                    pipe.close()
        errors.seek(0)
        output = errors.read().decode(errors="replace").lower()
        errors.close()
        self._process, self._errors, self._asked = None, None, None
        if "out of memory" in output or "bad_alloc" in output or "memoryerror" in output:
            reason = "memory"
        spent = usage.ru_utime + usage.ru_stime - self._spent
        found = _BY_SIGNAL.get(signal.Signals(-process.returncode)) if process.returncode < 0 else None
        return Answer(reason or found or "failed", processor_seconds=spent)
