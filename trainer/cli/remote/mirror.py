"""The local directory of a run on another machine: receives its files, and reports how much of each has arrived."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from trainer import TrainerError
from trainer.cli.remote.frames import files_below, take_file
from trainer.cli.remote.record import RemoteAttempt, here
from trainer.rundir import Event, RunPaths, encode, write_error, write_text

GROWING = ("events.jsonl", "log.txt")
"""Files that only grow; only their new bytes are sent."""
OF_THIS_MACHINE = frozenset({"run.lock", "control", "ranks", "tags.json", "note.txt"})
"""Files of a run directory that are not copied."""


class Mirror:
    """Writes what arrives into the run directory of this machine."""

    def __init__(self, paths: RunPaths, record: RemoteAttempt, circumstances: Mapping[str, Any]) -> None:
        self.paths, self.record, self._circumstances = paths, record, circumstances
        config = paths.config(record.number)
        self._config = config.read_text(encoding="utf-8") if config.exists() else ""
        self._forget_incomplete_lines()

    def begin(self) -> None:
        """Records where the attempt begins in the growing files."""
        self.record.starts, self.record.own = {name: _size(self.paths.root / name) for name in GROWING}, []

    def received(self, name: str) -> int:
        """The number of bytes of a growing file that have arrived."""
        own = sum(length for _, length in self.record.own) if name == GROWING[0] else 0
        return _size(self.paths.root / name) - self.record.starts[name] - own

    def modified(self) -> dict[str, int]:
        """The modification time of each other file, in nanoseconds; equal to the remote file's once it has arrived."""
        found = files_below(self.paths.root, left_out=OF_THIS_MACHINE | {*GROWING})
        return {name: modified for name, (_, modified) in found.items()}

    def say(self, event: Event) -> None:
        """Adds an event of this machine."""
        path = self.paths.root / GROWING[0]
        now = time.time()
        line = encode(event, time=now, since_start=now - self.record.process_start, attempt=self.record.number)
        if _ends_within_a_line(path):
            return  # the rest of that line comes first
        self.record.own.append([_size(path), len(line)])
        self.record.write(self.paths)  # before the line: a recorded line that is missing is noticed, see below
        self._append(path, line)

    def grow(self, name: str, at: int, added: bytes) -> None:
        """Adds bytes to a growing file.

        Raises:
            TrainerError: it can't be written, or these are not the next bytes.
        """
        if name not in GROWING or at != self.received(name):
            raise TrainerError("the other side sent unexpected bytes", found=f"{name} at {at}")
        self._append(self.paths.root / name, added)

    def take(self, header: dict[str, Any], payload: bytes) -> None:
        """Adds a part of another file.

        Raises:
            TrainerError: it can't be written, or is not part of a run.
        """
        name = PurePosixPath(header["put"])
        if name.is_absolute() or ".." in name.parts or name.parts[0] in OF_THIS_MACHINE | {*GROWING}:
            raise TrainerError("the other side sent a file that is not part of a run", found=str(name))
        if name.parts[0] == "checkpoints" and not header["at"] and name.name != "manifest.json":
            (self.paths.root / name).with_name("manifest.json").unlink(missing_ok=True)  # incomplete from here on
        try:
            path = take_file(self.paths.root, header, payload)
            if path is not None and len(name.parts) == 1:
                self._translate(path, header["modified"])
        except OSError as error:
            raise write_error(self.paths.root / name, error) from error

    def _translate(self, path: Path, modified: int) -> None:
        """Gives a config the paths of this machine, and adds this machine's facts to an environment file."""
        if path.suffix == ".yaml":
            write_text(path, _with_origins(here(path.read_text(encoding="utf-8"), self.record.pairs), self._config))
        elif path.name.startswith("environment-"):
            known = {**json.loads(path.read_text(encoding="utf-8")), **self._circumstances}
            write_text(path, json.dumps(known, indent=1) + "\n")
        os.utime(path, ns=(modified, modified))

    def _append(self, path: Path, added: bytes) -> None:
        try:
            with open(path, "ab") as file:
                file.write(added)
        except OSError as error:
            raise write_error(path, error) from error

    def _forget_incomplete_lines(self) -> None:
        """Removes a partial line: a process killed while it adds a line writes less of it than it has recorded."""
        if not self.record.own:
            return
        at, length = self.record.own[-1]
        path = self.paths.root / GROWING[0]
        if path.exists() and _size(path) < at + length:
            os.truncate(path, at)
            self.record.own.pop()
            self.record.write(self.paths)


def _with_origins(config: str, before: str) -> str:
    """The resolved config with the origins of values as on this machine, except for values that have changed."""
    lines, known = config.splitlines(), before.splitlines()
    if len(lines) == len(known):
        lines = [old if _value(old) == _value(new) else new for old, new in zip(known, lines, strict=True)]
    return "\n".join(lines) + "\n"


def _value(line: str) -> str:
    return line.partition("  # ")[0].rstrip()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _ends_within_a_line(path: Path) -> bool:
    if not _size(path):
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
