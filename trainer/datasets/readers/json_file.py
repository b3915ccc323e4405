"""Decodes large JSON files of records without loading them: mapped into memory, with positions in the file.

`json.load` creates a dictionary per record, which takes six times the file's size in memory. Here a record remains text
(a `msgspec.Raw` is a view of the file) until its few fields of fixed type are read.
"""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

from trainer import TrainerError
from trainer.datasets.paths import missing_file

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError)
"""Exceptions of decoding; for invalid UTF-8, msgspec does not raise an exception of its own."""

Id = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""Integers that columns of int64 and int32 can hold."""

_T = TypeVar("_T")
_NOT_FINITE = re.compile(rb"(?<=[\[,:\s])(?:NaN|-?Infinity)(?=[\s,\]}]|$)")
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<place>.*)`)?$", re.DOTALL)
_BYTE = re.compile(r"\(byte (\d+)\)")
_MOST_SHOWN = 160


class JsonFile:
    """A JSON file, open for decoding. Raises `TrainerError` if it is missing, empty, unreadable or not JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.stamp = stamp(file.fileno())
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise missing_file(path) from None
        except ValueError:
            raise TrainerError("the file is empty", where=str(path), expected="JSON") from None
        except OSError as error:
            raise TrainerError("the file can't be read", where=str(path), found=error.strerror or error) from error
        self._buffer: bytes | mmap.mmap = self._mapped
        self._base = _address(self._mapped)

    def decode(self, kind: type[_T], expected: str) -> _T:
        """The whole file as `kind`; parts that are read later have the type `msgspec.Raw`.

        NaN and Infinity, which Python writes although they are not JSON, are replaced by strings, so that only their
        record is invalid, not the whole file.
        """
        try:
            return self._decoded(kind)
        except msgspec.ValidationError as error:
            raise self.wrong_shape(error, "", expected) from None

    def _decoded(self, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(self._buffer, type=kind)
        except msgspec.ValidationError:
            raise
        except MALFORMED as error:
            patched, count = _NOT_FINITE.subn(lambda found: b'"' + b"N" * (len(found[0]) - 2) + b'"', self._mapped)
            if not count or self._buffer is not self._mapped:
                raise self._not_json(error) from None
            self._buffer, self._base = patched, _address(patched)  # of the same length: positions don't change
            return self._decoded(kind)

    def records(self, raw: msgspec.Raw, name: str) -> list[msgspec.Raw]:
        """The records of the array `raw`, which has the name `name` in the file."""
        try:
            return msgspec.json.decode(raw, type=list[msgspec.Raw])
        except MALFORMED as error:
            raise self.wrong_shape(error, name, "a list of records") from None

    def span(self, raw: msgspec.Raw) -> tuple[int, int]:
        """(start, length) in bytes of a part of the file; length 0 for a missing field."""
        length = len(memoryview(raw))
        return (_address(raw) - self._base, length) if length else (0, 0)

    def text(self, raw: msgspec.Raw) -> str:
        """The part of the file, shortened, for messages."""
        return shortened(self._bytes(raw)[: 4 * _MOST_SHOWN].decode("utf-8", "replace"))

    def _bytes(self, raw: msgspec.Raw) -> bytes:
        start, length = self.span(raw)
        return bytes(self._mapped[start : start + length])

    def problem(self, error: Exception, record: msgspec.Raw | None = None) -> tuple[str, str]:
        """The error of msgspec, and its position in the record, as in ("Expected float, got bool", "bbox[2]")."""
        found = _PLACE.match(str(error))
        assert found is not None
        what = found["what"].replace("`", "")
        if record is not None and _NOT_FINITE.search(self._bytes(record)):
            what = what.replace("got str", "got NaN or Infinity")
        return what, (found["place"] or "").removeprefix(".")

    def wrong_shape(
        self, error: Exception, place: str, expected: str, record: msgspec.Raw | None = None
    ) -> TrainerError:
        """The error for valid JSON that doesn't have the form of its format."""
        what, inner = self.problem(error, record)
        where = ".".join(part for part in (place, inner) if part).replace(".[", "[")
        return TrainerError(
            "the JSON doesn't have the expected form",
            where=f"{self.path}: {where}" if where else str(self.path),
            found=what if record is None else f"{what} in {self.text(record)}",
            expected=expected,
        )

    def _not_json(self, error: Exception) -> TrainerError:
        is_short = "truncated" in str(error)
        place = _BYTE.search(str(error))
        end = len(self._mapped) if is_short or place is None else int(place[1])
        return TrainerError(
            "truncated JSON" if is_short else "not a JSON file",
            where=f"{self.path}:{self._mapped[:end].count(10) + 1}",
            found=f"{len(self._mapped)} bytes, {error}" if is_short else error,
            hint="Download or write the file again." if is_short else None,
        )


class Places:
    """The parts of a JSON file by position; opens the file on first use, separately in each process.

    Raises `TrainerError` if the file changed since it was indexed.
    """

    def __init__(self, path: Path, stamped: tuple[int, int]) -> None:
        self.path, self._stamp = path, stamped
        self._file: int | None = None

    def __getitem__(self, span: np.ndarray) -> Any:
        """The content at (start, length), as plain data; None for length 0."""
        start, length = (int(value) for value in span)
        if not length:
            return None
        if self._file is None:
            self._file = self._open()
        content = os.pread(self._file, length, start)
        try:
            return msgspec.json.decode(content)
        except MALFORMED as error:
            raise TrainerError(
                "a part of the JSON can't be read",
                where=f"{self.path}: byte {start}",
                found=f"{error}: {content[:80]!r}",
            ) from None

    def _open(self) -> int:
        try:
            file = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise TrainerError("the file can't be read", where=str(self.path), found=error.strerror) from error
        if stamp(file) != self._stamp:
            os.close(file)
            raise TrainerError(
                "the file changed while it was in use", where=str(self.path), hint="Start the command again."
            )
        return file

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)


def stamp(file: int) -> tuple[int, int]:
    """Size and modification time (ns) of an open file."""
    status = os.fstat(file)
    return status.st_size, status.st_mtime_ns


def shortened(text: str) -> str:
    """The text, or only the beginning of a long text."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _address(buffer: Any) -> int:
    address: int = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
    return address
