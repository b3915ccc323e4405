"""Frames between relay and agent: a line of JSON, whose `size` is the number of bytes that follow; files as frames."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHUNK_BYTES = 1 << 20
MARK = b"trainer remote 1\n"
"""The first output of an agent; a login shell may print other text before it."""

Frame = tuple[dict[str, Any], bytes]


def frame(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """A frame as bytes."""
    return json.dumps({**header, "size": len(payload)} if payload else header).encode() + b"\n" + payload


class FrameReader:
    """Finds the frames in bytes that arrive in pieces.

    Args:
        after_mark: whether everything before MARK is skipped.
    """

    def __init__(self, *, after_mark: bool = False) -> None:
        self._bytes, self._header, self._is_skipping = b"", dict[str, Any](), after_mark

    def feed(self, received: bytes) -> Iterator[Frame]:
        """Yields the frames that these bytes complete.

        Raises:
            ValueError: the bytes are not frames.
        """
        self._bytes += received
        if self._is_skipping:
            _, mark, rest = self._bytes.partition(MARK)
            if not mark:
                return
            self._bytes, self._is_skipping = rest, False
        while True:
            if not self._header:
                line, newline, rest = self._bytes.partition(b"\n")
                if not newline:
                    return
                self._header, self._bytes = json.loads(line), rest
            size = self._header.get("size", 0)
            if len(self._bytes) < size:
                return
            header, payload = self._header, self._bytes[:size]
            self._header, self._bytes = {}, self._bytes[size:]
            yield header, payload


def file_frames(file: Path, name: str) -> Iterator[bytes]:
    """Yields a file as frames; the last one has its modification time.

    Raises:
        OSError: it can't be read.
    """
    with open(file, "rb") as opened:
        modified, at = os.fstat(opened.fileno()).st_mtime_ns, 0
        while True:
            chunk = opened.read(CHUNK_BYTES)
            is_last = len(chunk) < CHUNK_BYTES
            yield frame({"put": name, "at": at, **({"modified": modified} if is_last else {})}, chunk)
            at += len(chunk)
            if is_last:
                return


def take_file(root: Path, header: dict[str, Any], payload: bytes) -> Path | None:
    """Writes a frame of a file below `root`; returns its path once it is complete. Until then the old file stays.

    Raises:
        OSError: it can't be written.
    """
    target = root / header["put"]
    aside = target.with_name(f".{target.name}.part")
    if not header["at"]:
        target.parent.mkdir(parents=True, exist_ok=True)
    with open(aside, "ab" if header["at"] else "wb") as opened:
        opened.write(payload)
    if "modified" not in header:
        return None
    os.utime(aside, ns=(header["modified"], header["modified"]))
    os.replace(aside, target)
    return target


def files_below(root: Path, *, left_out: frozenset[str] = frozenset()) -> dict[str, tuple[int, int]]:
    """Size and modification time in nanoseconds by path relative to `root`, which is "." if `root` is a file.

    Hidden files and folders are left out, and top-level names in `left_out`. Links are followed.
    """
    if root.is_file():
        status = root.stat()
        return {".": (status.st_size, status.st_mtime_ns)}
    found = {}
    for at, folders, names in os.walk(root, followlinks=True):
        is_top, real = Path(at) == root, Path(os.path.realpath(at))
        folders[:] = [
            name for name in folders
            if name[0] != "." and not (is_top and name in left_out)
            and not real.is_relative_to(os.path.realpath(Path(at, name)))  # a link to a folder that contains it
        ]  # fmt: skip
        for name in names:
            if name[0] == "." or (is_top and name in left_out):
                continue
            path = Path(at, name)
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # deleted meanwhile, or a link to nowhere
            found[path.relative_to(root).as_posix()] = status.st_size, status.st_mtime_ns
    return found
