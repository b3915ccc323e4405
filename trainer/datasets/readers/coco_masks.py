"""COCO segmentations: polygons, run lengths as lists of counts, compressed run lengths. Uses pycocotools."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainer import TrainerError

_MOST_BYTES = 7
"""Maximum characters of a number: five bits each, for an image of 2**34 pixels."""

_EXPECTED = "polygons [[x, y, x, y, x, y, …], …] or run lengths {size: [height, width], counts: a list or a text}"


def run_lengths(segmentation: Any, size: tuple[int, int], where: str) -> dict[str, Any]:
    """Compressed run lengths {size, counts} of a segmentation in an image of `size` (height, width).

    Raises:
        TrainerError: it has none of COCO's three forms, another size, or counts that don't add up to the image.
    """
    from pycocotools import mask

    height, width = size
    if isinstance(segmentation, list):
        polygons = [_polygon(polygon, where) for polygon in segmentation]
        if not polygons:
            raise TrainerError("empty segmentation", where=where, found="no polygon", expected=_EXPECTED)
        merged: dict[str, Any] = mask.merge(mask.frPyObjects(polygons, height, width))
        return merged
    if not isinstance(segmentation, dict) or not {"size", "counts"} <= set(segmentation):
        raise TrainerError("not a segmentation", where=where, found=_short(segmentation), expected=_EXPECTED)
    if list(segmentation["size"]) != [height, width]:
        raise TrainerError(
            "the size of a mask doesn't match the image",
            where=where,
            found=f"size {segmentation['size']} (height, width)",
            expected=f"[{height}, {width}]",
        )
    counts = segmentation["counts"]
    if isinstance(counts, list):
        if any(not isinstance(count, int) or count < 0 for count in counts) or sum(counts) != height * width:
            found = f"{len(counts)} counts with a sum of {sum(count for count in counts if isinstance(count, int))}"
            expected = f"integers with a sum of {height * width}, the pixels of the image"
            raise TrainerError(
                "the run lengths of a mask don't add up to the image", where=where, found=found, expected=expected
            )
        uncompressed: dict[str, Any] = mask.frPyObjects(segmentation, height, width)
        return uncompressed
    if not isinstance(counts, str | bytes):
        raise TrainerError("not a segmentation", where=where, found=_short(segmentation), expected=_EXPECTED)
    text = counts.encode() if isinstance(counts, str) else counts
    decoded = counts_of(text)
    if decoded is None or sum(decoded) != height * width:
        raise TrainerError(
            "the run lengths of a mask don't add up to the image",
            where=where,
            found="truncated text" if decoded is None else f"counts with a sum of {sum(decoded)}",
            expected=f"{height * width}, the pixels of the image",
        )
    return {"size": [height, width], "counts": text}


def mask_of(segmentation: Any, size: tuple[int, int], where: str) -> np.ndarray:
    """bool [H, W]: the pixels of a segmentation. Raises `TrainerError` as `run_lengths` does."""
    from pycocotools import mask

    pixels: np.ndarray = mask.decode(run_lengths(segmentation, size, where))
    return pixels.astype(bool)


def counts_of(text: bytes) -> list[int] | None:
    """The run lengths of COCO's compressed text; None if it is truncated or has an invalid byte.

    Each count is a variable-length number with six bits per byte (plus 48). From the fourth on, it is the difference
    from the count two before (`rleFrString` of cocoapi, which reads past the end of damaged texts).
    """
    bits = np.frombuffer(text, np.uint8).astype(np.int64) - 48
    if not len(bits):
        return []
    goes_on = (bits & 0x20) > 0
    if bits.min() < 0 or bits.max() > 0x3F or goes_on[-1]:
        return None
    starts = np.flatnonzero(np.concatenate([[True], ~goes_on[:-1]]))
    lengths = np.diff(np.append(starts, len(bits)))
    if lengths.max() > _MOST_BYTES:
        return None
    shifts = 5 * (np.arange(len(bits)) - np.repeat(starts, lengths))
    values = np.add.reduceat((bits & 0x1F) << shifts, starts)
    is_negative = (bits[starts + lengths - 1] & 0x10) > 0
    values = np.where(is_negative, values - (np.int64(1) << 5 * lengths), values)
    values[1::2] = np.cumsum(values[1::2])
    values[2::2] = np.cumsum(values[2::2])
    return None if values.min() < 0 else values.tolist()


def _polygon(polygon: Any, where: str) -> list[float]:
    is_list = isinstance(polygon, list) and all(isinstance(value, int | float) for value in polygon)
    if not is_list or len(polygon) < 6 or len(polygon) % 2:
        found = f"{len(polygon)} numbers" if is_list else _short(polygon)
        raise TrainerError(
            "a polygon has too few points",
            where=where,
            found=found,
            expected="at least three points: [x, y, x, y, x, y, …]",
        )
    return list(polygon)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
