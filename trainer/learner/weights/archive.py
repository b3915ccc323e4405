"""Reads zip archives with uncompressed members, as PyTorch and NumPy write them: in place, with CRC checks.

`memory` rejects compressed members, so nothing can expand while reading.
"""

from __future__ import annotations

import mmap
import struct
import zipfile
import zlib
from pathlib import Path
from typing import NoReturn

from trainer import TrainerError

_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, length of the name, length of the extra field
_ENCRYPTED = 1


class Archive:
    """The members of a zip archive in mapped memory.

    Raises:
        TrainerError: it is damaged, or has a duplicate name.
    """

    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self._where, self._content = str(path), content
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError, OSError) as error:
            raise TrainerError("a damaged zip archive", where=self._where, found=str(error)[:200]) from error
        self._members = {member.filename: member for member in members}
        if len(self._members) != len(members):
            raise TrainerError("a damaged zip archive", where=self._where, found="a duplicate name")

    @property
    def names(self) -> list[str]:
        """The members' names."""
        return list(self._members)

    def read(self, name: str, most: int) -> bytes:
        """The content of a member, which may have at most `most` bytes."""
        held = self.memory(name)
        if len(held) > most:
            self._refuse(name, f"{len(held):,} bytes", f"at most {most:,}")
        return bytes(held)

    def memory(self, name: str) -> memoryview:
        """The content of a member in place, after a CRC check."""
        member = self._members.get(name)
        if member is None:
            self._refuse(name, "no such member", "a member of its directory")
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            self._refuse(name, "compressed", "stored uncompressed")
        if member.flag_bits & _ENCRYPTED:
            self._refuse(name, "encrypted", "stored uncompressed")
        content, start = memoryview(self._content), member.header_offset
        if start < 0 or start + _LOCAL_HEADER.size > len(content):
            self._refuse(name, "beyond the file's end", "within the file")
        signature, name_length, extra_length = _LOCAL_HEADER.unpack(content[start : start + _LOCAL_HEADER.size])
        begin = start + _LOCAL_HEADER.size + name_length + extra_length
        if signature != b"PK\x03\x04" or begin + member.file_size > len(content):
            self._refuse(name, "beyond the file's end", "within the file")
        held = content[begin : begin + member.file_size]
        if zlib.crc32(held) != member.CRC:
            self._refuse(
                name, "a member doesn't match its CRC-32", "an undamaged file",
                hint="PyTorch writes no CRC after torch.serialization.set_crc32_options(False): save the file with "
                "True.",
            )  # fmt: skip
        return held

    def _refuse(self, name: str, found: str, expected: str, hint: str | None = None) -> NoReturn:
        raise TrainerError(
            f"can't read {name} in the archive", where=self._where, found=found, expected=expected, hint=hint
        )
