"""Arithmetic of both kinds by the names that integers and floats share, and what floats alone have.

add, sub, mul and fma of floats must say their rounding: without it `ptxas` may contract them, and the bits are open.
Approximations (ex2.approx, ...) are refused for the same reason. NaN payloads are NumPy's, not the hardware's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.engine.targets.ptx.emulator import integers, rounding
from tests.engine.targets.ptx.emulator.decode import Decoder, Execute, instruction
from tests.engine.targets.ptx.emulator.integers import computed, is_float

ROUNDINGS = ("rn", "rz", "rm", "rp")


def _rounding(decoder: Decoder) -> str:
    found = [word for word in decoder.words if word in ROUNDINGS]
    if len(found) != 1:
        raise decoder.refuse("no rounding: ptxas may contract it")
    return found[0]


def _float(decoder: Decoder, function: Callable[..., np.ndarray], count: int) -> Execute:
    """A function of floats, which flushes subnormal numbers where the instruction says .ftz."""
    (kind,) = decoder.kinds
    if kind not in ("f32", "f64"):
        raise decoder.refuse(f"arithmetic of {kind}")
    sources = [decoder.source(number, kind) for number in range(1, count + 1)]
    if not decoder.has("ftz"):
        return computed(decoder, function, *sources)
    return computed(
        decoder, lambda *values: rounding.flushed(function(*(rounding.flushed(each) for each in values))), *sources
    )


def _half(decoder: Decoder, function: Callable[..., np.ndarray]) -> Execute:
    """A function of one or two float16 numbers in a register; rounding twice, through float32, is harmless."""

    def applied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        bits, size = np.broadcast_arrays(a, b), a.dtype
        parts = [np.ascontiguousarray(each).view(np.float16).astype(np.float32) for each in bits]
        return function(*parts).astype(np.float16).view(size)

    kind = "b32" if decoder.kinds[0].endswith("x2") else "b16"
    return computed(decoder, applied, decoder.source(1, kind), decoder.source(2, kind))


def _exact(name: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The sum, difference or product of float32 numbers in float64, rounded to odd."""

    def function(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        x, y = np.broadcast_arrays(a.astype(np.float64), b.astype(np.float64))
        return x * y if name == "mul" else rounding.sum_rounded_to_odd(x, -y if name == "sub" else y)

    return function


@instruction("add", "sub", "mul")
def _arithmetic(decoder: Decoder) -> Execute:
    if not is_float(decoder):
        return integers.multiply(decoder) if decoder.name == "mul" else integers.add(decoder)
    decoder.only("ftz", *ROUNDINGS)
    mode = _rounding(decoder)
    if decoder.kinds[0] in ("f16", "f16x2") and mode == "rn":
        return _half(decoder, {"add": np.add, "sub": np.subtract, "mul": np.multiply}[decoder.name])
    if mode == "rn":
        return _float(decoder, {"add": np.add, "sub": np.subtract, "mul": np.multiply}[decoder.name], 2)
    if decoder.kinds != ["f32"]:
        raise decoder.refuse("this rounding of float64")
    exact = _exact(decoder.name)
    return _float(decoder, lambda a, b: rounding.narrowed(exact(a, b), mode), 2)


@instruction("fma")
def _fma(decoder: Decoder) -> Execute:
    decoder.only("ftz", *ROUNDINGS)
    mode = _rounding(decoder)
    return _float(decoder, lambda a, b, c: rounding.fused(a, b, c, mode), 3)


@instruction("div")
def _div(decoder: Decoder) -> Execute:
    if not is_float(decoder):
        return integers.divide(decoder)
    decoder.only("ftz", "rn")
    _rounding(decoder)
    return _float(decoder, np.divide, 2)


@instruction("rcp", "sqrt")
def _root(decoder: Decoder) -> Execute:
    decoder.only("ftz", "rn")
    _rounding(decoder)
    return _float(decoder, np.sqrt if decoder.name == "sqrt" else lambda x: (1 / x).astype(x.dtype), 1)


@instruction("abs", "neg")
def _sign(decoder: Decoder) -> Execute:
    """Of floats only the sign's bit changes, of NaN too."""
    decoder.only("ftz")
    (kind,) = decoder.kinds
    if kind in ("f16", "bf16", "f16x2", "bf16x2"):
        wide = kind.endswith("x2")
        sign = np.uint32(0x80008000) if wide else np.uint16(0x8000)
        changed = (lambda x: x & ~sign) if decoder.name == "abs" else (lambda x: x ^ sign)
        return computed(decoder, changed, decoder.source(1, "b32" if wide else "b16"))
    if is_float(decoder):
        return _float(decoder, np.abs if decoder.name == "abs" else np.negative, 1)
    return computed(decoder, np.abs if decoder.name == "abs" else np.negative, decoder.source(1, kind))


@instruction("min", "max")
def _extremum(decoder: Decoder) -> Execute:
    """Of floats: -0 is below +0; a NaN gives way to a number, with .NaN to nothing."""
    (kind,) = decoder.kinds
    decoder.only("ftz", "NaN")
    if not is_float(decoder):
        function = np.minimum if decoder.name == "min" else np.maximum
        return computed(decoder, function, decoder.source(1, kind), decoder.source(2, kind))

    def chosen(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = np.broadcast_arrays(a, b)
        first = np.where(np.signbit(a) == np.signbit(b), a < b, np.signbit(a))
        found = np.where(first, a, b) if decoder.name == "min" else np.where(first, b, a)
        if decoder.has("NaN"):
            return np.where(np.isnan(a) | np.isnan(b), np.array(np.nan, a.dtype), found)
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, found))

    return _float(decoder, chosen, 2)


@instruction("copysign")
def _copysign(decoder: Decoder) -> Execute:
    """The second operand with the first one's sign."""
    decoder.only()
    return _float(decoder, lambda a, b: np.copysign(b, a), 2)


@instruction("testp")
def _test(decoder: Decoder) -> Execute:
    tests: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "finite": np.isfinite, "infinite": np.isinf, "number": lambda x: ~np.isnan(x), "notanumber": np.isnan,
        "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny),
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny),
    }  # fmt: skip
    decoder.only(*tests)
    return computed(decoder, tests[decoder.words[1]], decoder.source(1, decoder.kinds[-1]))
