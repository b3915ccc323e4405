"""Multiply-accumulate of two elements of the accumulator's size. An element is a number, or a pair or quad of smaller
numbers that are neighbors along the reduction. A contraction of pairs or quads runs over half or a quarter as many
elements: its specification counts elements, and every template handles them like float32 and int32.

Pairs of bfloat16 are summed in float32: element 2k is in the lower half, 2k + 1 in the upper. Numerics class: one chain
of fused multiply-adds, started from zero; the odd element of each pair comes first. Products of two bfloat16 are exact
in float32. AVX-512-BF16's VDPBF16PS is defined as those two multiply-adds with subnormal operands and results flushed
to zero (Intel SDM, volume 2; confirmed on Zen 5); elsewhere both halves are widened to float32 by shifts. Where
subnormals are flushed, as in traced programs, both methods give the same bits. AMX sums in a different order, which is
a separate numerics class: `tile_registers.py`.

Quads of 8-bit integers are summed in int32; the left operand is signed or unsigned, the right operand (the weights)
signed. Sums are exact modulo 2**32 and wrap, so every method gives the same bits. AVX-512-VNNI's VPDPBUSD multiplies
unsigned by signed bytes and does not saturate (Intel SDM, volume 2). For a signed left operand, 128 is added by
flipping the sign bits, and 128 times the right operand's sum is subtracted at the end: that sum is one more row of the
tile. Elsewhere bytes are widened by shifts.
"""

from __future__ import annotations

from typing import Literal, Protocol

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.ir.writer import Writer

Quads = Literal["", "unsigned", "signed"]
"""Whether elements are quads of 8-bit integers ("": no), and the signedness of the left operand's."""

Products = str
"""How elements are multiplied: "single" numbers of the accumulator's dtype; "native_pairs" by AVX-512-BF16's
instruction, "widened_pairs" by two multiply-adds in float32, "tile_pairs" by AMX; and likewise native, widened and tile
"signed_quads" and "unsigned_quads", by AVX-512-VNNI's instruction, products of 32 bits and AMX.
"""

_FLOATS, _WORDS, _PAIRS, _BYTES = "<16 x float>", "<16 x i32>", "<32 x bfloat>", "<64 x i8>"
OFFSET = "splat (i32 -2139062144)"
"""Four bytes of 128."""


class Multiplied(Protocol):
    """The properties of a contraction's specification that describe the elements it multiplies."""

    @property
    def packed(self) -> bool: ...
    @property
    def pairs(self) -> bool: ...
    @property
    def tiled(self) -> bool: ...
    @property
    def quads(self) -> Quads: ...


def products_of(spec: Multiplied, native: bool, tiles: bool = False) -> Products:
    """The products of a kernel; `tiles`: by AMX.

    Raises:
        ValueError: the bits would differ from those that the specification requires.
    """
    if tiles and not spec.packed:
        raise ValueError("tiles are multiplied with the right operand in panels")
    if spec.tiled != (tiles and not spec.quads):
        raise ValueError(f"pairs are summed by tiles exactly where the specification says so: {spec}")
    if not (spec.pairs or spec.quads):
        return "single"
    elements = "pairs" if spec.pairs else f"{spec.quads}_quads"
    return f"{'tile' if tiles else 'native' if native else 'widened'}_{elements}"


def multiply_add(writer: Writer, products: Products, dtype: DType, kind: str, a: str, b: str, total: str) -> str:
    """`total` + products of vectors `a` and `b` of type `kind`; signed quads multiplied natively are offset in `a`."""
    if products == "single":
        if dtype.is_float:
            return writer.apply("fma", kind, a, b, total)
        product = writer.value(f"mul {kind} {a}, {b}")
        return writer.value(f"add {kind} {product}, {total}")
    if products == "native_pairs":
        pairs = [(_PAIRS, writer.value(f"bitcast {_FLOATS} {value} to {_PAIRS}")) for value in (a, b)]
        return writer.intrinsic("x86.avx512bf16.dpbf16ps.512", _FLOATS, (_FLOATS, total), *pairs)
    if products == "widened_pairs":
        for half in ("and", "splat (i32 -65536)"), ("shl", "splat (i32 16)"):  # the odd one, then the even one
            operands = [_half(writer, value, *half) for value in (a, b)]
            total = writer.apply("fma", _FLOATS, *operands, total)
        return total
    if products.startswith("native_"):
        quads = [(_BYTES, writer.value(f"bitcast {_WORDS} {value} to {_BYTES}")) for value in (a, b)]
        return writer.intrinsic("x86.avx512.vpdpbusd.512", _WORDS, (_WORDS, total), *quads)
    for place in range(4):
        left = _byte(writer, a, place, "ashr" if products == "widened_signed_quads" else "lshr")
        product = writer.value(f"mul {_WORDS} {left}, {_byte(writer, b, place, 'ashr')}")
        total = writer.value(f"add {_WORDS} {total}, {product}")
    return total


def _half(writer: Writer, pairs: str, operation: str, operand: str) -> str:
    words = writer.value(f"bitcast {_FLOATS} {pairs} to {_WORDS}")
    return writer.value(f"bitcast {_WORDS} {writer.value(f'{operation} {_WORDS} {words}, {operand}')} to {_FLOATS}")


def _byte(writer: Writer, quads: str, place: int, shift: str) -> str:
    top = writer.value(f"shl {_WORDS} {quads}, splat (i32 {24 - 8 * place})") if place < 3 else quads
    return writer.value(f"{shift} {_WORDS} {top}, splat (i32 24)")
