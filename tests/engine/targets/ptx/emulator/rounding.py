"""Floating-point operations with PTX's roundings, exact on NumPy's arrays.

A float32 result with any rounding comes from a float64 that was rounded to odd (S. Boldo and G. Melquiond, Emulation of
a FMA and correctly rounded sums: proved algorithms using rounding to odd, IEEE Transactions on Computers 57, 2008).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tests.engine.targets.ptx.emulator.fault import Unsupported

_SMALLEST = np.finfo(np.float32).tiny
_SPLITTER = 134217729.0
_SAFE = 2.0**400
"""float64 numbers between its reciprocal and it are added and multiplied here without overflow or lost bits."""


def flushed(values: np.ndarray) -> np.ndarray:
    """float32 numbers with zeros for subnormal ones (.ftz); the sign stays."""
    if values.dtype != np.float32:
        return values
    small = np.abs(values) < _SMALLEST
    return np.where(small, np.copysign(np.float32(0), values), values) if small.any() else values


def sum_rounded_to_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b in float64: where it is not exact, the neighbor whose last bit is 1."""
    total = a + b
    part = total - a
    lost = (a - (total - part)) + (b - part)
    even = (total.view(np.int64) & 1) == 0
    moved = np.isfinite(lost) & (lost != 0) & even
    if not moved.any():
        return total
    away = (lost > 0) == (total > 0)
    bits = total.view(np.int64) + np.where(away, 1, -1)
    return np.where(moved, bits.view(np.float64), total)


def narrowed(values: np.ndarray, rounding: str) -> np.ndarray:
    """float64 numbers, exact or rounded to odd, as float32."""
    near = values.astype(np.float32)
    if rounding == "rn":
        return near
    match rounding:
        case "rz":
            wrong, toward = np.abs(near) > np.abs(values), np.float32(0)
        case "rm":
            wrong, toward = near > values, np.float32(-np.inf)
        case "rp":
            wrong, toward = near < values, np.float32(np.inf)
        case _:
            raise Unsupported(f"the rounding .{rounding}")
    return np.where(wrong, np.nextafter(near, toward), near)


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray, rounding: str = "rn") -> np.ndarray:
    """a * b + c, rounded once."""
    if a.dtype == np.float32:
        product = a.astype(np.float64) * b.astype(np.float64)
        return narrowed(sum_rounded_to_odd(*np.broadcast_arrays(product, c.astype(np.float64))), rounding)
    if a.dtype != np.float64 or rounding != "rn":
        raise Unsupported(f"fma.{rounding} of {a.dtype}")
    return _fused_float64(*np.broadcast_arrays(a, b, c))


def _fused_float64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    plain = a * b + c
    product = np.abs(a * b)
    easy = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)
    sizes = [np.abs(a), np.abs(b), product, np.where(c == 0, 1.0, np.abs(c))]
    safe = np.logical_and.reduce([(size < _SAFE) & (size > 1 / _SAFE) for size in sizes])
    high, low = _product(a, b)
    upper, lower = _sum(c, low)
    total, rest = _sum(high, upper)
    found = np.where(easy, plain, total + sum_rounded_to_odd(lower, rest))
    for place in np.flatnonzero(~easy & ~safe):
        exact = Fraction(float(a[place])) * Fraction(float(b[place])) + Fraction(float(c[place]))
        try:
            found[place] = float(exact) if exact else plain[place]
        except OverflowError:
            found[place] = np.copysign(np.inf, float(exact > 0) - 0.5)
    return found


def _product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a * b, and what its rounding lost (T. Dekker 1971)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = values * _SPLITTER
    high = scaled - (scaled - values)
    return high, values - high


def _sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b, and what its rounding lost (D. Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def to_bfloat16(values: np.ndarray, rounding: str) -> np.ndarray:
    """The bits of bfloat16 numbers nearest to float32 ones, ties to even (rn), or towards zero (rz)."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    if rounding == "rz":
        cut = bits >> 16
    elif rounding == "rn":
        cut = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    else:
        raise Unsupported(f"bfloat16 with the rounding .{rounding}")
    return np.where(np.isnan(values), 0x7FFF, cut).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """bfloat16 numbers as float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_tf32(values: np.ndarray) -> np.ndarray:
    """The bits of float32 numbers rounded to ten bits of mantissa, ties away from zero (rna)."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return np.where(np.isfinite(values), (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits).astype(np.uint32)
