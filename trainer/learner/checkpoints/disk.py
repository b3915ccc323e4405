"""The file system operations for writing checkpoints; tests pass one that fails, or stops, at any point."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

Pieces = Iterable[bytes | memoryview]


class Disk:
    """The real file system. `write` and `remove_folder` call the other methods, which are elementary operations.

    After `flush` and `flush_folder` return, the data is on disk.
    """

    def write(self, path: Path, pieces: Pieces) -> tuple[int, str]:
        """Writes and flushes a file; returns its size, and the SHA-256 of the intended content."""
        digest, size = hashlib.sha256(), 0
        descriptor = self.create(path)
        try:
            for piece in pieces:
                self.put(descriptor, piece)
                digest.update(piece)
                size += len(piece)
            self.flush(descriptor)
        finally:
            os.close(descriptor)
        return size, digest.hexdigest()

    def remove_folder(self, path: Path) -> None:
        """Deletes a folder with its contents, or the link to one; no error if missing."""
        if path.is_symlink():
            self.remove_file(path)
        elif path.is_dir():
            for entry in path.iterdir():
                (self.remove_folder if entry.is_dir() else self.remove_file)(entry)
            self.remove_empty_folder(path)

    def make_folder(self, path: Path) -> None:
        """Creates a folder, or accepts an existing one. Never creates its parent: a deleted run stays deleted."""
        path.mkdir(exist_ok=True)

    def create(self, path: Path) -> int:
        """Creates or truncates a file for writing; returns its descriptor."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o644)

    def put(self, descriptor: int, piece: bytes | memoryview) -> None:
        """Writes a complete piece of data."""
        rest = memoryview(piece)
        while len(rest):
            rest = rest[os.write(descriptor, rest) :]

    def flush(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def flush_folder(self, path: Path) -> None:
        """Flushes renames and new names in a folder to disk."""
        if os.name == "nt":
            return  # Windows can't open a directory; renames are durable there without a flush
        descriptor = os.open(path, os.O_RDONLY)
        try:
            self.flush(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, path: Path, target: Path) -> None:
        """Renames atomically; replaces an existing file."""
        os.replace(path, target)

    def remove_file(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_empty_folder(self, path: Path) -> None:
        path.rmdir()


DISK = Disk()
