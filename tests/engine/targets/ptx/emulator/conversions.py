"""cvt: between integers, floats and 16-bit floats, with PTX's roundings and saturation."""

from __future__ import annotations

import numpy as np

from tests.engine.targets.ptx.emulator import rounding
from tests.engine.targets.ptx.emulator.decode import Decoder, Execute, instruction
from tests.engine.targets.ptx.emulator.integers import computed
from tests.engine.targets.ptx.emulator.kinds import FLOATS, KINDS

_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_TO_FLOAT = ("rn", "rz", "rm", "rp", "rna")


@instruction("cvt")
def _cvt(decoder: Decoder) -> Execute:
    decoder.only("ftz", "sat", "satfinite", *_TO_INTEGER, *_TO_FLOAT)
    target, source = decoder.kinds
    if decoder.has("satfinite") or (decoder.has("sat") and (target in FLOATS or source in FLOATS)):
        raise decoder.refuse("saturation of floats")
    if target in ("bf16x2", "f16x2"):
        return _pair(decoder, target[:-2])
    return computed(decoder, lambda values: _converted(decoder, values, source, target), decoder.source(1, source))


def _pair(decoder: Decoder, kind: str) -> Execute:
    """Two float32 numbers as 16-bit floats in one register, the first one above."""

    def joined(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
        halves = [_converted(decoder, each, "f32", kind).view(np.uint16).astype(np.uint32) for each in (upper, lower)]
        return halves[0] << np.uint32(16) | halves[1]

    return computed(decoder, joined, decoder.source(1, "f32"), decoder.source(2, "f32"))


def _converted(decoder: Decoder, values: np.ndarray, source: str, target: str) -> np.ndarray:
    mode = next((word for word in decoder.words if word in _TO_FLOAT), "")
    whole = next((word for word in decoder.words if word in _TO_INTEGER), "")
    if source == "bf16":
        values, source = rounding.from_bfloat16(values), "f32"
    if decoder.has("ftz"):
        values = rounding.flushed(values)
    if source in FLOATS:
        if target in FLOATS or target == "tf32":
            found = _float_to_float(decoder, _TO_INTEGER[whole](values) if whole else values, target, mode)
            return rounding.flushed(found) if decoder.has("ftz") else found
        if not whole:
            raise decoder.refuse("a conversion to integers without a rounding")
        return float_to_integer(_TO_INTEGER[whole](values), KINDS[target])
    if target in FLOATS:
        return _integer_to_float(decoder, values, target, mode)
    return _integer_to_integer(values, KINDS[target], decoder.has("sat"))


def _float_to_float(decoder: Decoder, values: np.ndarray, target: str, mode: str) -> np.ndarray:
    if target == "tf32":
        return rounding.to_tf32(values)
    if target == "bf16":
        return rounding.to_bfloat16(values, mode)
    kind = KINDS[target]
    if kind.itemsize < values.dtype.itemsize and mode != "rn":
        if values.dtype == np.float64 and kind == np.float32:
            return rounding.narrowed(values, mode)
        raise decoder.refuse(f"the rounding .{mode}")
    return values.astype(kind)


def float_to_integer(values: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Integers as integers: cut at the type's range. NaN gives 0, of or to 64 bits the sign's bit alone."""
    limits, wide = np.iinfo(kind), values.astype(np.float64)
    above = wide >= float(limits.max) + (limits.bits < 53)
    below = wide <= float(limits.min)
    is_nan = np.isnan(wide)
    found = np.where(above | below | is_nan, 0, wide).astype(kind)
    found = np.where(above, limits.max, np.where(below, limits.min, found)).astype(kind)
    if values.dtype == np.float64 or kind.itemsize == 8:
        nothing = np.array(1 << limits.bits - 1, np.uint64).astype(f"u{kind.itemsize}").view(kind)
    else:
        nothing = np.array(0, kind)
    return np.where(is_nan, nothing, found)


def _integer_to_float(decoder: Decoder, values: np.ndarray, target: str, mode: str) -> np.ndarray:
    if mode != "rn":
        raise decoder.refuse(f"the rounding .{mode}")
    if target == "bf16":
        raise decoder.refuse("integers as bfloat16")
    if target == "f16":
        return values.astype(np.float64).astype(np.float16)  # integers beyond 2**53 overflow anyway
    return values.astype(KINDS[target])


def _integer_to_integer(values: np.ndarray, kind: np.dtype, saturates: bool) -> np.ndarray:
    if saturates:
        limits, own = np.iinfo(kind), np.iinfo(values.dtype)
        values = values.clip(max(limits.min, own.min), min(limits.max, own.max))
    return np.array(values.astype(kind))
