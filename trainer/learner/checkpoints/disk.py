"""All that writing a checkpoint asks of the file system; tests hand in one that fails, or stops, anywhere."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

Pieces = Iterable[bytes | memoryview]


class Disk:
    """The real one. What a method has returned from is on the disk, whatever happens next."""

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, pieces: Pieces) -> tuple[int, str]:
        """Write a file and flush it; its size, and its SHA-256 as it was meant to be."""
        digest, size = hashlib.sha256(), 0
        with open(path, "wb") as file:
            for piece in pieces:
                self.put(file.fileno(), piece)
                digest.update(piece)
                size += len(piece)
            self.flush(file.fileno())
        return size, digest.hexdigest()

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

    def remove_folder(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)


DISK = Disk()
