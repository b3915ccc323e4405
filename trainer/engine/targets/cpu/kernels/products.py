"""Products of bfloat16 pairs, summed in float32.

Operands of bfloat16 lie in pairs of neighbours along the reduction, 4 bytes each: element 2k in the lower half, 2k + 1
in the upper. So a contraction of bfloat16 runs over half as many elements of the size of a float, and every template
handles it as it does float32.

Numerics class: one chain of fused multiply-adds in float32, started from zero; of each pair the odd element first.
Products of two bfloat16 are exact in float32. AVX-512-BF16's VDPBF16PS is defined as those two multiply-adds with
subnormal operands and results flushed to zero (Intel SDM, volume 2; found so on Zen 5); elsewhere both halves are
widened to float32 by shifts. Where subnormals are flushed, as traced programs do, the two have the same bits. AMX sums
in another order, a numerics class of its own: `tile_registers.py`.
"""

from __future__ import annotations

from typing import Literal

from trainer.engine.targets.cpu.kernels.quads import Quads
from trainer.engine.targets.cpu.kernels.writer import Writer

Products = Literal[
    "single",
    "native_pairs",
    "widened_pairs",
    "native_signed_quads",
    "native_unsigned_quads",
    "widened_signed_quads",
    "widened_unsigned_quads",
    "tile_pairs",
    "tile_signed_quads",
    "tile_unsigned_quads",
]
"""How elements are multiplied: numbers of the accumulator's dtype, or pairs of bfloat16 by one instruction of
AVX-512-BF16, or pairs by two multiply-adds in float32, or quads of 8-bit integers (`quads.py`), or pairs and quads by
AMX (`tile_registers.py`).
"""

_FLOATS, _WORDS, _PAIRS = "<16 x float>", "<16 x i32>", "<32 x bfloat>"


def products_of(pairs: bool, native: bool, quads: Quads = "", tiles: bool = False) -> Products:
    """The products of a kernel whose operands are pairs, quads or neither; `tiles`: by AMX."""
    if tiles:
        return "tile_pairs" if pairs else "tile_signed_quads" if quads == "signed" else "tile_unsigned_quads"
    if quads == "signed":
        return "native_signed_quads" if native else "widened_signed_quads"
    if quads == "unsigned":
        return "native_unsigned_quads" if native else "widened_unsigned_quads"
    return ("native_pairs" if native else "widened_pairs") if pairs else "single"


def add_pairs(writer: Writer, a: str, b: str, total: str, *, native: bool) -> str:
    """`total` + the products of the pairs in `a` and `b`, vectors of 16 floats that stand for 16 pairs."""
    if native:
        pairs = [(_PAIRS, writer.value(f"bitcast {_FLOATS} {value} to {_PAIRS}")) for value in (a, b)]
        return writer.intrinsic("x86.avx512bf16.dpbf16ps.512", _FLOATS, (_FLOATS, total), *pairs)
    for half in (_odd, _even):
        total = writer.apply("fma", _FLOATS, half(writer, a), half(writer, b), total)
    return total


def _odd(writer: Writer, pairs: str) -> str:
    words = writer.value(f"bitcast {_FLOATS} {pairs} to {_WORDS}")
    return writer.value(f"bitcast {_WORDS} {writer.value(f'and {_WORDS} {words}, splat (i32 -65536)')} to {_FLOATS}")


def _even(writer: Writer, pairs: str) -> str:
    words = writer.value(f"bitcast {_FLOATS} {pairs} to {_WORDS}")
    return writer.value(f"bitcast {_WORDS} {writer.value(f'shl {_WORDS} {words}, splat (i32 16)')} to {_FLOATS}")
