"""The types of PTX as NumPy's; registers hold raw bits as unsigned integers of their width."""

from __future__ import annotations

import numpy as np

KINDS: dict[str, np.dtype] = {
    name: np.dtype(kind)
    for name, kind in {
        "b8": "u1", "u8": "u1", "s8": "i1",
        "b16": "u2", "u16": "u2", "s16": "i2", "f16": "f2", "bf16": "u2",
        "b32": "u4", "u32": "u4", "s32": "i4", "f32": "f4", "tf32": "u4", "f16x2": "u4", "bf16x2": "u4",
        "b64": "u8", "u64": "u8", "s64": "i8", "f64": "f8",
    }.items()
}  # fmt: skip
"""bf16 and tf32 are their bits."""

UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
SIGNED = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}
FLOATS = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")


def raw(values: np.ndarray) -> np.ndarray:
    """The bits of numbers as unsigned integers."""
    return values.view(UNSIGNED[values.dtype.itemsize])


def resized(values: np.ndarray, size: int) -> np.ndarray:
    """Numbers as unsigned integers of `size` bytes: cut, or extended by their sign or by zeros."""
    if values.dtype.itemsize == size:
        return raw(values)
    if values.dtype.kind == "f":
        values = raw(values)
    extended = SIGNED[size] if values.dtype.kind == "i" else UNSIGNED[size]
    return values.astype(extended).view(UNSIGNED[size])
