"""Zip archives whose members lie uncompressed, as PyTorch and NumPy write them: read in place, each checked by its CRC.

Compressed members are refused by `memory`, so nothing can grow while it is read.
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
        TrainerError: it is damaged, or a name stands twice.
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
            raise TrainerError("a damaged zip archive", where=self._where, found="a name stands twice")

    @property
    def names(self) -> list[str]:
        """The members' names."""
        return list(self._members)

    def read(self, name: str, most: int) -> bytes:
        """A member's content, of at most `most` bytes."""
        held = self.memory(name)
        if len(held) > most:
            self._refuse(name, f"{len(held):,} bytes", f"at most {most:,}")
        return bytes(held)

    def memory(self, name: str) -> memoryview:
        """A member's content where it lies, after its CRC was compared."""
        member = self._members.get(name)
        if member is None:
            self._refuse(name, "no such member", "all that its list of contents names")
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            self._refuse(name, "compressed", "stored as it is")
        if member.flag_bits & _ENCRYPTED:
            self._refuse(name, "encrypted", "stored as it is")
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
                name, "other bytes than were written, by their CRC-32", "an undamaged file",
                hint="PyTorch writes no CRC after torch.serialization.set_crc32_options(False): save it with True.",
            )  # fmt: skip
        return held

    def _refuse(self, name: str, found: str, expected: str, hint: str | None = None) -> NoReturn:
        raise TrainerError(
            f"can't read {name} in the archive", where=self._where, found=found, expected=expected, hint=hint
        )
