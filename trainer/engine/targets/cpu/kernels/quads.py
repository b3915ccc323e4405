"""Products of quads of 8-bit integers, summed in int32.

Operands of 8 bits lie in quads of neighbours along the reduction, 4 bytes each, so a contraction runs over a quarter as
many elements of the size of an int32, and its specification counts quads. The left operand is signed or unsigned, the
right one (the weights) signed. Sums are exact modulo 2**32 and wrap, so every way has the same bits.

AVX-512-VNNI's VPDPBUSD multiplies unsigned by signed bytes and does not saturate (Intel SDM, volume 2). For a signed
left operand, 128 is added by flipping the sign bits, and 128 times the right operand's sum is taken off again: that sum
is one more row of the tile. Elsewhere bytes are widened by shifts.
"""

from __future__ import annotations

from typing import Literal

from trainer.engine.targets.cpu.kernels.writer import Writer

Quads = Literal["", "unsigned", "signed"]
"""Whether elements are quads of 8-bit integers, and what those of the left operand are."""

_WORDS, _BYTES = "<16 x i32>", "<64 x i8>"
OFFSET = "splat (i32 -2139062144)"
"""Four bytes of 128."""


def with_offset(writer: Writer, quads: str) -> str:
    """Signed bytes plus 128, as unsigned ones."""
    return writer.value(f"xor {_WORDS} {quads}, {OFFSET}")


def add_unsigned_quads(writer: Writer, a: str, b: str, total: str) -> str:
    """`total` + the products of unsigned quads `a` and signed ones `b`, by one instruction of AVX-512-VNNI."""
    operands = [(_BYTES, writer.value(f"bitcast {_WORDS} {value} to {_BYTES}")) for value in (a, b)]
    return writer.intrinsic("x86.avx512.vpdpbusd.512", _WORDS, (_WORDS, total), *operands)


def add_widened_quads(writer: Writer, a: str, b: str, total: str, *, signed: bool) -> str:
    """The same by four products of 32 bits; `a` is signed or not."""
    for place in range(4):
        left = _byte(writer, a, place, "ashr" if signed else "lshr")
        product = writer.value(f"mul {_WORDS} {left}, {_byte(writer, b, place, 'ashr')}")
        total = writer.value(f"add {_WORDS} {total}, {product}")
    return total


def _byte(writer: Writer, quads: str, place: int, shift: str) -> str:
    top = writer.value(f"shl {_WORDS} {quads}, splat (i32 {24 - 8 * place})") if place < 3 else quads
    return writer.value(f"{shift} {_WORDS} {top}, splat (i32 24)")
