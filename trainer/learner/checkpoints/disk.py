"""All that writing a checkpoint asks of the file system; tests hand in one that fails, or stops, anywhere."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

Pieces = Iterable[bytes | memoryview]


class Disk:
    """The real one. `write` and `remove_folder` are made of the others, which each ask one thing of the system.

    What `flush` and `flush_folder` have returned from is on the disk, whatever happens next.
    """

    def write(self, path: Path, pieces: Pieces) -> tuple[int, str]:
        """Write a file and flush it; its size, and its SHA-256 as it was meant to be."""
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
        """A folder and what is in it, or the link to one; no error where there is none."""
        if path.is_symlink():
            self.remove_file(path)
        elif path.is_dir():
            for entry in path.iterdir():
                (self.remove_folder if entry.is_dir() else self.remove_file)(entry)
            self.remove_empty_folder(path)

    def make_folder(self, path: Path) -> None:
        """A folder, or the one that is there; the one around it is not made: a run that was deleted stays so."""
        path.mkdir(exist_ok=True)

    def create(self, path: Path) -> int:
        """A new file, or an emptied one, to write to: its descriptor."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o644)

    def put(self, descriptor: int, piece: bytes | memoryview) -> None:
        """Write all of a piece."""
        rest = memoryview(piece)
        while len(rest):
            rest = rest[os.write(descriptor, rest) :]

    def flush(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def flush_folder(self, path: Path) -> None:
        """Let renames and new names in a folder last."""
        if os.name == "nt":
            return  # a directory can't be opened there, and renames are durable without
        descriptor = os.open(path, os.O_RDONLY)
        try:
            self.flush(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, path: Path, target: Path) -> None:
        """In one go; a file that is there is replaced."""
        os.replace(path, target)

    def remove_file(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_empty_folder(self, path: Path) -> None:
        path.rmdir()


DISK = Disk()
