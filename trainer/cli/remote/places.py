"""The places where `trainer run --on` trains: starts the agent there, and explains why it could not be started."""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from trainer import TrainerError, __version__
from trainer.cli.remote.frames import Frame, FrameReader, frame
from trainer.cli.starting import worker_environment

PLACES = "local, ssh:HOST, slurm:PARTITION, ray:ADDRESS or ssh:HOST,slurm:PARTITION"
PYTHON = "python3"
"""The interpreter on another machine, if --python names none."""
SECONDS_TO_ANSWER = 60.0
"""Seconds in which an agent must answer; SSH's own time limit is shorter."""
SSH_OPTIONS = (
    "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
)  # fmt: skip
"""No password prompts, because nobody can answer them; a lost connection is noticed within 20 seconds."""
_SSH_FAILED, _NOT_FOUND = 255, 127

BOOT = """\
import json, sys
sys.path[:] = [folder for folder in sys.path if folder]
found = None
try:
    import trainer
    found = trainer.__version__
    if found == sys.argv[1]:
        from trainer.cli.remote.agent import main
except (ImportError, AttributeError, SyntaxError):
    found = None
if found == sys.argv[1]:
    sys.exit(main(sys.argv[2:]))
print("trainer remote 1")
print(json.dumps({"version": found, "python": sys.executable}))
"""
"""Runs the agent if this version is installed, otherwise reports the installed version; for any Python 3."""

_REASONS = (
    ("could not resolve hostname", "the host is unknown", "Check the name, or add it to ~/.ssh/config."),
    ("permission denied", "the host refuses the key", "`ssh {host}` must work without a password: add the key with "
     "ssh-copy-id, or to the agent with ssh-add."),
    ("host key verification failed", "the host's key is unknown or has changed", "Connect once with `ssh {host}`."),
    ("connection refused", "the host accepts no SSH connections", "Check that sshd runs there, and its port."),
    ("timed out", "the host doesn't answer", "Check that it runs, and that this network reaches it."),
    ("no route to host", "the host can't be reached", "Check that it runs, and that this network reaches it."),
)  # fmt: skip
"""Messages of ssh, in lower case, with their meaning and a hint."""


class ConnectionLost(Exception):
    """The agent can't be reached any more; the run continues without it."""


@dataclass(frozen=True)
class Place:
    """Where a run trains.

    Attributes:
        text: as given with --on.
        host: the host for `ssh`; None: this machine.
        through: slurm:PARTITION or ray:ADDRESS, which starts the worker; None: the agent does.
        python: the interpreter there.
    """

    text: str
    host: str | None
    through: str | None
    python: str

    def agent(self, folder: str) -> list[str]:
        """The command that starts the agent for a folder there."""
        words = [self.python, "-c", BOOT, __version__, folder, self.through or ""]
        return words if self.host is None else ["ssh", *SSH_OPTIONS, self.host, shlex.join(words)]


def place_named(text: str, python: str | None = None) -> Place:
    """The place of the option --on.

    Raises:
        TrainerError: no such place.
    """
    found = re.fullmatch(r"(?:ssh:([^\s,-][^\s,]*))?,?((?:slurm|ray):[^\s,]+)?", text)
    host, through = found.groups() if found else (None, None)
    if (host is None and through is None) or ((host and through) is not None) != ("," in text):
        raise TrainerError("no such place", where="--on", found=text, expected=PLACES)
    if python is not None and host is None:
        raise TrainerError("--python names the interpreter of another machine", found=text, expected="--on ssh:HOST")
    return Place(text, host, through, (python or PYTHON) if host is not None else sys.executable)


class Connection:
    """A connection to an agent; the agent starts and ends with it.

    Raises:
        TrainerError: the place can't be reached, or can't train.
    """

    def __init__(self, place: Place, folder: str) -> None:
        self.place = place
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with this object)
        try:
            self._process = subprocess.Popen(
                place.agent(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
                env=worker_environment(), start_new_session=True,  # Ctrl-C is for the relay
            )  # fmt: skip
        except FileNotFoundError as error:
            raise TrainerError(
                "SSH's client is not installed here", where=f"--on {place.text}", found="no ssh",
                hint="Install OpenSSH's client: `apt install openssh-client`.",
            ) from error  # fmt: skip
        self._reader = FrameReader(after_mark=True)
        self._frames: list[Frame] = []
        try:
            self.about = self._greeting()
        except BaseException:
            self.close()
            raise

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Sends a frame.

        Raises:
            ConnectionLost: the connection is gone.
        """
        self.write(frame(header, payload))

    def write(self, text: bytes) -> None:
        """Sends frames as bytes; see `send`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except OSError as error:
            raise ConnectionLost(self.last_words()) from error

    def receive(self, seconds: float) -> list[Frame]:
        """Waits at most `seconds`; returns the first frames that arrive.

        Raises:
            ConnectionLost: the connection is gone.
        """
        assert self._process.stdout is not None
        if not self._frames and select.select([self._process.stdout], [], [], seconds)[0]:
            received = os.read(self._process.stdout.fileno(), 1 << 16)
            if not received:
                raise ConnectionLost(self.last_words())
            self._frames += self._reader.feed(received)
        frames, self._frames = self._frames, []
        return frames

    def answer(self, header: dict[str, Any]) -> dict[str, Any]:
        """Sends a frame and returns the next one that arrives.

        Raises:
            ConnectionLost: the connection is gone.
        """
        self.send(header)
        while (received := self._next(SECONDS_TO_ANSWER)) is None:
            pass  # a lost connection raises ConnectionLost
        return received

    def close(self) -> None:
        """Ends the connection and the agent."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(OSError):  # it is already closed
                stream.close()
        try:
            self._process.wait(SECONDS_TO_ANSWER)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """The last line that ssh or the agent printed."""
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().decode("utf-8", "replace").splitlines()]
        return next((line for line in reversed(lines) if line), "the connection was closed")

    def _next(self, seconds: float) -> dict[str, Any] | None:
        deadline = time.monotonic() + seconds
        while not (frames := self.receive(max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return None
        first, *self._frames = frames
        return first[0]

    def _greeting(self) -> dict[str, Any]:
        where = f"--on {self.place.text}"
        try:
            about = self._next(SECONDS_TO_ANSWER)
        except ConnectionLost as lost:
            raise self._explained(self._process.wait()) from lost
        if about is None:
            raise TrainerError("no answer", where=where, expected=f"one within {SECONDS_TO_ANSWER:.0f} s")
        if "mistake" in about:
            raise TrainerError(about["mistake"])
        if "version" in about:
            install = f"{self.place.python} -m pip install 'lucid-trainer=={__version__}'"
            raise TrainerError(
                "trainer is not installed there" if about["version"] is None else "another version is installed there",
                where=where, found=f"{about['version'] or 'no trainer'} in {about['python']}", expected=__version__,
                hint=f"Install it with `ssh {self.place.host} {shlex.quote(install)}`, or name the interpreter that "
                "has it with --python.",
            )  # fmt: skip
        return about

    def _explained(self, code: int) -> TrainerError:
        """The error that explains why the agent could not be started."""
        where, words = f"--on {self.place.text}", self.last_words()
        if self.place.host is not None and code == _SSH_FAILED:
            for text, message, hint in _REASONS:
                if text in words.lower():
                    return TrainerError(message, where=where, found=words, hint=hint.format(host=self.place.host))
            return TrainerError("SSH failed", where=where, found=words, hint=f"Try `ssh {self.place.host}`.")
        if self.place.host is not None and code == _NOT_FOUND:
            return TrainerError(
                "no such interpreter there", where=where, found=words, expected="Python with trainer",
                hint="Name it with --python, for instance --python /opt/venv/bin/python.",
            )  # fmt: skip
        return TrainerError("the other side ended", where=where, found=f"exit code {code}: {words}")
