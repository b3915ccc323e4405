"""Lowers lookups in tables of sixteen floats to instructions of the target.

Kernels are written for no specific machine, and LLVM IR has no instruction that selects lanes by a variable index:
`Writer.lookup` emits a call of `@lookup16`, which is replaced here before LLVM parses the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_CALL = re.compile(r"^  (%\S+) = call <16 x float> @lookup16\(<16 x float> <(.*)>, <16 x i32> (%\S+)\)$", re.MULTILINE)


def spelled(ir: str, triple: str, features: Sequence[str]) -> str:
    """Returns `ir` with calls of @lookup16 replaced; the bits are the same for every target."""
    if "@lookup16" not in ir:
        return ir
    if triple.startswith(("aarch64", "arm64")):
        lines, declaration = _neon, _NEON
    elif "+avx512f" in features:
        lines, declaration = _avx512, _AVX512
    else:
        lines, declaration = _avx2, _AVX2
    return _CALL.sub(lambda match: "\n".join(f"  {line}" for line in lines(*match.groups())), ir) + declaration


_AVX512 = "declare <16 x float> @llvm.x86.avx512.permvar.sf.512(<16 x float>, <16 x i32>)\n"


def _avx512(result: str, table: str, index: str) -> Iterator[str]:
    yield (f"{result} = call <16 x float> @llvm.x86.avx512.permvar.sf.512(<16 x float> <{table}>, <16 x i32> {index})")


_AVX2 = "declare <8 x float> @llvm.x86.avx2.permps(<8 x float>, <8 x i32>)\n"


def _avx2(result: str, table: str, index: str) -> Iterator[str]:
    """Looks up each half of the table by the index's lowest three bits; the fourth bit, moved to the sign, selects."""
    entries = table.split(", ")
    for part in range(2):
        lanes = ", ".join(f"i32 {lane}" for lane in range(8 * part, 8 * part + 8))
        own = f"{result}.index{part}"
        yield f"{own} = shufflevector <16 x i32> {index}, <16 x i32> poison, <8 x i32> <{lanes}>"
        for half in range(2):
            values = ", ".join(entries[8 * half : 8 * half + 8])
            call = f"call <8 x float> @llvm.x86.avx2.permps(<8 x float> <{values}>, <8 x i32> {own})"
            yield f"{result}.found{part}{half} = {call}"
        yield f"{result}.moved{part} = shl <8 x i32> {own}, splat (i32 28)"
        yield f"{result}.upper{part} = icmp slt <8 x i32> {result}.moved{part}, zeroinitializer"
        found = f"<8 x float> {result}.found{part}1, <8 x float> {result}.found{part}0"
        yield f"{result}.part{part} = select <8 x i1> {result}.upper{part}, {found}"
    lanes = ", ".join(f"i32 {lane}" for lane in range(16))
    yield f"{result} = shufflevector <8 x float> {result}.part0, <8 x float> {result}.part1, <16 x i32> <{lanes}>"


_NEON = f"declare <16 x i8> @llvm.aarch64.neon.tbl4.v16i8({', '.join(['<16 x i8>'] * 5)})\n"


def _neon(result: str, table: str, index: str) -> Iterator[str]:
    """Looks up four lanes at a time, by the positions of each float's four bytes in the table's 64 bytes."""
    entries = table.split(", ")
    quarters = []
    for quarter in range(4):
        values = ", ".join(entries[4 * quarter : 4 * quarter + 4])
        yield f"{result}.table{quarter} = bitcast <4 x float> <{values}> to <16 x i8>"
        quarters.append(f"<16 x i8> {result}.table{quarter}")
    yield f"{result}.entry = and <16 x i32> {index}, splat (i32 15)"
    yield f"{result}.first = mul <16 x i32> {result}.entry, splat (i32 {0x04040404})"
    yield f"{result}.bytes = add <16 x i32> {result}.first, splat (i32 {0x03020100})"
    for part in range(4):
        lanes = ", ".join(f"i32 {lane}" for lane in range(4 * part, 4 * part + 4))
        yield f"{result}.own{part} = shufflevector <16 x i32> {result}.bytes, <16 x i32> poison, <4 x i32> <{lanes}>"
        yield f"{result}.places{part} = bitcast <4 x i32> {result}.own{part} to <16 x i8>"
        arguments = ", ".join([*quarters, f"<16 x i8> {result}.places{part}"])
        yield f"{result}.found{part} = call <16 x i8> @llvm.aarch64.neon.tbl4.v16i8({arguments})"
        yield f"{result}.part{part} = bitcast <16 x i8> {result}.found{part} to <4 x float>"
    eight = ", ".join(f"i32 {lane}" for lane in range(8))
    for half in range(2):
        parts = f"<4 x float> {result}.part{2 * half}, <4 x float> {result}.part{2 * half + 1}"
        yield f"{result}.half{half} = shufflevector {parts}, <8 x i32> <{eight}>"
    lanes = ", ".join(f"i32 {lane}" for lane in range(16))
    yield f"{result} = shufflevector <8 x float> {result}.half0, <8 x float> {result}.half1, <16 x i32> <{lanes}>"
