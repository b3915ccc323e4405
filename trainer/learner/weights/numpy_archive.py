"""Reads NumPy's `.npz` archives, compressed or not. Object arrays, which are pickles, are rejected."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from trainer import TrainerError
from trainer.engine import DType, bool_, float16, float32, float64, int32, int64, uint8
from trainer.learner.checkpoints.format import Array

MOST_EXPANSION = 100
ALWAYS_ALLOWED = 64 << 20
"""Maximum expansion of an archive, as a factor of its size or in bytes; protects against zip bombs."""

_DTYPES: dict[str, DType] = {
    **{dtype.name: dtype for dtype in (bool_, uint8, int32, int64, float16, float32, float64)},
    **{"int8": int32, "int16": int32, "uint16": int32, "uint32": int64},
}


def read_numpy(path: Path) -> dict[str, Array]:
    """The arrays of a `.npz` file by name. Integers of types that the engine lacks are converted to wider types.

    Raises:
        TrainerError: a damaged archive, an array of objects or of an unsupported dtype, or excessive expansion.
    """
    where = str(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            expanded, most = sum(member.file_size for member in members), MOST_EXPANSION * path.stat().st_size
            if expanded > max(most, ALWAYS_ALLOWED):
                raise TrainerError("the archive expands too much", where=where, found=f"{expanded:,} bytes",
                                   expected=f"at most {most:,}")  # fmt: skip
            arrays = {}
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise TrainerError(f"two arrays are named {name!r}", where=where)
                with archive.open(member) as file:
                    arrays[name] = _array(file, name, where)
            return arrays
    except (
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        ValueError,
        SyntaxError,
        tokenize.TokenError,
        OverflowError,
        EOFError,
        RuntimeError,
    ) as error:
        raise TrainerError("not a NumPy archive", where=where, found=str(error)[:200]) from error


def _array(file: IO[bytes], name: str, where: str) -> Array:
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, kind = read_header(file)
    dtype = _DTYPES.get(kind.newbyteorder("=").name)
    if dtype is None:
        raise TrainerError(f"{name} is not an array of supported numbers", where=where, found=kind)
    content = file.read()
    if len(content) != math.prod(shape) * kind.itemsize:
        raise TrainerError(f"the size of {name} doesn't match its shape", where=where, found=f"{len(content)} bytes",
                           expected=f"{kind}{list(shape)}")  # fmt: skip
    values = np.frombuffer(content, kind).reshape(shape, order="F" if is_fortran else "C")
    return Array(values.astype(dtype.storage, copy=False), dtype)
