"""Decisions on disk: one file of JSON lines for each device, safe with several processes.

A line is one decision: the key, the parameters, and the measurements. The key holds everything that the decision
depends on: the exact specification, the source of the kernel templates, the processor's features, the number of
threads and the versions of the libraries. Lines are appended under a lock; if several have the same key, the last one
is used. A torn or invalid line is skipped with a warning that names it. The folder is private to the user, like the
folder of compiled kernels. Parameters are used only if they are among the current candidates.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import platform
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np

from trainer import __version__, cache_folder
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.identity import templates_hash

FORMAT = 1
_VERSIONS = __version__, llvmlite.__version__, np.__version__
_COMPACTED_FROM = 512
"""A file with more lines than this is rewritten when more than half of its lines are superseded or unreadable."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision as stored: `parameters` by name, times in milliseconds."""

    key: str
    operation: str
    shape: str
    parameters: Mapping[str, Any]
    default_ms: float | None
    best_ms: float | None
    candidates: int
    skipped: Mapping[str, int]

    @classmethod
    def parse(cls, line: str) -> Entry:
        """Parses a line of the file.

        Raises:
            ValueError: the line is not an entry.
        """
        values = json.loads(line)
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
            raise ValueError("not an entry of this format")
        names = {field.name for field in dataclasses.fields(cls)}
        well_typed = isinstance(values.get("key"), str) and isinstance(values.get("parameters"), dict)
        if set(values) != names or not well_typed or not isinstance(values["skipped"], dict):
            raise ValueError("fields are missing or unknown")
        return cls(**values)

    @property
    def line(self) -> str:
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, separators=(",", ":")) + "\n"


class TuningCache:
    """The decisions of one file. Reading and adding never raise: a cache that can't be written costs time, but does not
    stop a run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries = self._load()

    def get(self, key: str) -> Entry | None:
        """Returns the decision for a key that was in the file when it was opened, or was added since; else None."""
        return self._entries.get(key)

    def add(self, *entries: Entry) -> None:
        """Stores decisions in memory and at the end of the file."""
        self._entries.update({entry.key: entry for entry in entries})
        if disk_cache.private_directory(self.path.parent) is None:
            return
        try:
            with _locked(self.path), open(self.path, "a+b") as file:
                torn = file.tell() > 0 and not _ends_a_line(file)
                file.write((b"\n" if torn else b"") + "".join(entry.line for entry in entries).encode())
        except OSError:
            return

    def entries(self) -> list[Entry]:
        """Returns all decisions, oldest first."""
        return list(self._entries.values())

    def _load(self) -> dict[str, Entry]:
        if disk_cache.private_directory(self.path.parent) is None:
            return {}
        try:
            entries, lines = self._read(warns=True)
        except OSError:
            return {}
        if lines > max(_COMPACTED_FROM, 2 * len(entries)):
            with suppress(OSError), _locked(self.path):  # rewrite it without superseded and unreadable lines
                temporary = self.path.with_suffix(f".{os.getpid()}")
                temporary.write_text("".join(entry.line for entry in self._read(warns=False)[0].values()), "utf-8")
                os.replace(temporary, self.path)
        return entries

    def _read(self, *, warns: bool) -> tuple[dict[str, Entry], int]:
        """Returns the entries of the file, in the order of the last line of each key, and the number of lines."""
        entries: dict[str, Entry] = {}
        lines = self.path.read_text("utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                entry = Entry.parse(line)
            except (ValueError, TypeError) as error:
                if warns:
                    warnings.warn(
                        f"{self.path}:{number}: skipped, this line is not a tuning decision ({error}); "
                        "`trainer doctor cache` can clear the file",
                        RuntimeWarning,
                        stacklevel=5,
                    )
                continue
            entries.pop(entry.key, None)
            entries[entry.key] = entry
        return entries, len(lines)


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock file of `path`; on systems without locks, only appending a line is safe."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cache_path() -> Path:
    """The file of this machine's processor, next to the compiled kernels, so `TRAINER_CACHE_DIR` moves it too."""
    return cache_folder() / "tuning" / f"{_device_name()}.jsonl"


@functools.cache
def _device_name() -> str:
    """Returns a file name made of the processor's name and features."""
    name = platform.processor() or platform.machine()
    with suppress(OSError, IndexError):
        name = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)[0]
    features = hashlib.sha256(native.host_target().features.encode()).hexdigest()[:8]
    return f"cpu-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}-{features}"


def decision_key(spec: Any, target: native.Target, threads: int) -> str:
    """The key of a decision."""
    parts = (FORMAT, repr(spec), templates_hash(), target.key, threads, *_VERSIONS)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
