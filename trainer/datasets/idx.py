"""The IDX format of the MNIST family of data sets: a header with dtype and shape, then the numbers, big-endian.

Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", section "file formats".
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainer import TrainerError
from trainer.datasets.dataset import ArrayDataset

_DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path | str) -> np.ndarray:
    """The array in an IDX file, gzipped or not (detected by its first bytes, not its name), in native byte order.

    Raises `TrainerError` for a missing or unreadable file, an invalid magic number, and missing or extra data.
    """
    path = Path(path)
    content = _read(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _DTYPES or content[3] == 0:
        raise TrainerError(
            "not an IDX file",
            where=str(path),
            found=f"the first bytes {content[:4].hex(' ') or '(none)'}",
            expected="00 00, an element type (08 for unsigned bytes), the number of axes",
        )
    dtype, ndim = np.dtype(_DTYPES[content[2]]), content[3]
    start = 4 + 4 * ndim
    shape = struct.unpack(f">{ndim}I", content[4:start]) if len(content) >= start else None
    needed = start + int(np.prod(shape, dtype=np.float64)) * dtype.itemsize if shape is not None else start
    what = f"for shape {list(shape)} of {dtype.name}" if shape is not None else "of header"
    if len(content) != needed:
        raise TrainerError(
            "truncated IDX file" if len(content) < needed else "the IDX file is longer than its header states",
            where=str(path),
            found=f"{len(content)} bytes",
            expected=f"{needed} bytes {what}",
            hint="Download the file again." if len(content) < needed else None,
        )
    assert shape is not None
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def idx_count(path: Path) -> int:
    """Returns the number of rows in the header of an IDX file. Raises `TrainerError` if the header can't be read."""
    try:
        with path.open("rb") as file:
            is_compressed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_compressed else path.open("rb") as file:
            return int(struct.unpack(">I", file.read(8)[4:])[0])
    except (OSError, EOFError, struct.error, zlib.error) as error:
        raise TrainerError("the IDX file can't be read", where=str(path), found=error) from error


def read_idx_pair(images: Path | str, labels: Path | str, *, class_names: Sequence[str]) -> ArrayDataset:
    """Images and their labels as items {"image": uint8 [H, W, 1], "label": int64 []}.

    Raises `TrainerError` if the two files don't match or a label has no class name.
    """
    pixels, numbers = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or numbers.ndim != 1:
        raise TrainerError(
            "the IDX files don't contain images and labels",
            where=str(images),
            found=f"images of shape {list(pixels.shape)}, labels of shape {list(numbers.shape)}",
            expected="images [N, H, W] and labels [N]",
        )
    if len(pixels) != len(numbers):
        raise TrainerError(
            "different numbers of images and labels",
            where=str(labels),
            found=f"{len(numbers)} labels",
            expected=f"{len(pixels)}, one per image in {images}",
        )
    wrong = np.flatnonzero((numbers < 0) | (numbers >= len(class_names)))
    if len(wrong):
        raise TrainerError(
            "a label has no class name",
            where=f"{labels}[{wrong[0]}]",
            found=f"label {numbers[wrong[0]]} ({len(wrong)} such labels)",
            expected=f"0 to {len(class_names) - 1}",
        )
    arrays = {"image": pixels[:, None], "label": numbers.astype(np.int64)}
    return ArrayDataset(arrays, class_names=class_names, name=str(images))


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except FileNotFoundError:
        found = "no such folder either"
        if path.parent.is_dir():
            nearby = sorted(entry.name for entry in path.parent.iterdir())
            found = f"in that folder: {', '.join(nearby[:8]) or 'nothing'}"
        raise TrainerError(
            "no such file",
            where=str(path),
            found=found,
            hint="Set `data.root` to the folder of the data.",
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TrainerError(
            "truncated or damaged gzip file", where=str(path), found=error, hint="Download the file again."
        ) from error
    except OSError as error:
        raise TrainerError("the file can't be read", where=str(path), found=error.strerror or error) from error
