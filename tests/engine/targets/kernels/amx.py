"""AMX without the processor: its instructions as functions over memory, doing what Intel's manual says.

`emulated` puts them in the place of the intrinsics of a kernel's text. Where the manual has the processor refuse
(shapes that don't fit one another, a register that isn't configured), the sum becomes 0xFF in every byte: NaN, or -1.
"""

from __future__ import annotations

from trainer.engine.targets.cpu import native

TARGET = native.Target("+amx-tile,+amx-bf16,+amx-int8", "x86-64-v4", "x86_64-unknown-linux-gnu")
"""A processor with AVX-512 and AMX, without AVX-512-BF16 and VNNI."""

_NAMES = ("ldtilecfg", "tilerelease", "tilezero", "tileloadd64", "tilestored64", "tdpbf16ps", "tdpbssd", "tdpbusd")

_STATE = """
@amx.tiles = internal global [8 x [16 x [64 x i8]]] zeroinitializer, align 64
@amx.configuration = internal global [64 x i8] zeroinitializer, align 64
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare float @llvm.fma.f32(float, float, float)

define internal i64 @amx.rows(i8 %tile) {
  %n = zext i8 %tile to i64
  %at = add i64 %n, 48
  %p = getelementptr i8, ptr @amx.configuration, i64 %at
  %rows = load i8, ptr %p
  %wide = zext i8 %rows to i64
  ret i64 %wide
}
define internal i64 @amx.width(i8 %tile) {
  %n = zext i8 %tile to i64
  %twice = shl i64 %n, 1
  %at = add i64 %twice, 16
  %p = getelementptr i8, ptr @amx.configuration, i64 %at
  %width = load i16, ptr %p
  %wide = zext i16 %width to i64
  ret i64 %wide
}
define internal ptr @amx.word(i8 %tile, i64 %row, i64 %column) {
  %n = zext i8 %tile to i64
  %p = getelementptr [16 x [16 x i32]], ptr @amx.tiles, i64 %n, i64 %row, i64 %column
  ret ptr %p
}
define internal void @amx.ldtilecfg(ptr %from) {
  call void @llvm.memcpy.p0.p0.i64(ptr @amx.configuration, ptr %from, i64 64, i1 false)
  call void @llvm.memset.p0.i64(ptr @amx.tiles, i8 0, i64 8192, i1 false)
  ret void
}
define internal void @amx.tilerelease() {
  call void @llvm.memset.p0.i64(ptr @amx.configuration, i8 0, i64 64, i1 false)
  ret void
}
define internal void @amx.tilezero(i8 %tile) {
  %p = call ptr @amx.word(i8 %tile, i64 0, i64 0)
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 1024, i1 false)
  ret void
}
define internal void @amx.move(i8 %tile, ptr %memory, i64 %stride, i1 %loads) {
entry:
  %rows = call i64 @amx.rows(i8 %tile)
  %width = call i64 @amx.width(i8 %tile)
  %any = icmp sgt i64 %rows, 0
  br i1 %any, label %row, label %done
row:
  %i = phi i64 [ 0, %entry ], [ %next, %moved ]
  %inside = call ptr @amx.word(i8 %tile, i64 %i, i64 0)
  %offset = mul i64 %i, %stride
  %outside = getelementptr i8, ptr %memory, i64 %offset
  br i1 %loads, label %load, label %store
load:
  call void @llvm.memcpy.p0.p0.i64(ptr %inside, ptr %outside, i64 %width, i1 false)
  br label %moved
store:
  call void @llvm.memcpy.p0.p0.i64(ptr %outside, ptr %inside, i64 %width, i1 false)
  br label %moved
moved:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %rows
  br i1 %more, label %row, label %done
done:
  ret void
}
define internal void @amx.tileloadd64(i8 %tile, ptr %memory, i64 %stride) {
  call void @amx.tilezero(i8 %tile)
  call void @amx.move(i8 %tile, ptr %memory, i64 %stride, i1 true)
  ret void
}
define internal void @amx.tilestored64(i8 %tile, ptr %memory, i64 %stride) {
  call void @amx.move(i8 %tile, ptr %memory, i64 %stride, i1 false)
  ret void
}
define internal float @amx.flushed(float %x) {
  %bits = bitcast float %x to i32
  %exponent = and i32 %bits, 2139095040
  %tiny = icmp eq i32 %exponent, 0
  %sign = and i32 %bits, -2147483648
  %zero = bitcast i32 %sign to float
  %y = select i1 %tiny, float %zero, float %x
  ret float %y
}
define internal float @amx.added(float %total, i32 %a, i32 %b, i32 %shift) {
  %a.moved = shl i32 %a, %shift
  %b.moved = shl i32 %b, %shift
  %a.bits = and i32 %a.moved, -65536
  %b.bits = and i32 %b.moved, -65536
  %a.float = bitcast i32 %a.bits to float
  %b.float = bitcast i32 %b.bits to float
  %x = call float @amx.flushed(float %a.float)
  %y = call float @amx.flushed(float %b.float)
  %z = call float @llvm.fma.f32(float %x, float %y, float %total)
  %flushed = call float @amx.flushed(float %z)
  ret float %flushed
}
define internal i32 @amx.pairs(i8 %left, i8 %right, i64 %row, i64 %column, i64 %steps, i32 %before) {
entry:
  br label %step
step:
  %k = phi i64 [ 0, %entry ], [ %next, %step ]
  %even = phi float [ 0.0, %entry ], [ %even.next, %step ]
  %odd = phi float [ 0.0, %entry ], [ %odd.next, %step ]
  %pa = call ptr @amx.word(i8 %left, i64 %row, i64 %k)
  %pb = call ptr @amx.word(i8 %right, i64 %k, i64 %column)
  %a = load i32, ptr %pa
  %b = load i32, ptr %pb
  %even.next = call float @amx.added(float %even, i32 %a, i32 %b, i32 16)
  %odd.next = call float @amx.added(float %odd, i32 %a, i32 %b, i32 0)
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %step, label %done
done:
  %both = fadd float %even.next, %odd.next
  %both.flushed = call float @amx.flushed(float %both)
  %old = bitcast i32 %before to float
  %old.flushed = call float @amx.flushed(float %old)
  %sum = fadd float %old.flushed, %both.flushed
  %sum.flushed = call float @amx.flushed(float %sum)
  %bits = bitcast float %sum.flushed to i32
  ret i32 %bits
}
"""

_QUADS = """
define internal i32 @amx.{sign}(i8 %left, i8 %right, i64 %row, i64 %column, i64 %steps, i32 %before) {{
entry:
  br label %step
step:
  %k = phi i64 [ 0, %entry ], [ %next, %step ]
  %total = phi i32 [ %before, %entry ], [ %sum, %step ]
  %pa = call ptr @amx.word(i8 %left, i64 %row, i64 %k)
  %pb = call ptr @amx.word(i8 %right, i64 %k, i64 %column)
  %a = load <4 x i8>, ptr %pa
  %b = load <4 x i8>, ptr %pb
  %a.wide = {extend} <4 x i8> %a to <4 x i32>
  %b.wide = sext <4 x i8> %b to <4 x i32>
  %products = mul <4 x i32> %a.wide, %b.wide
  %four = call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> %products)
  %sum = add i32 %total, %four
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %step, label %done
done:
  ret i32 %sum
}}
"""

_PRODUCT = """
define internal void @amx.{instruction}(i8 %total, i8 %left, i8 %right) {{
entry:
  %rows = call i64 @amx.rows(i8 %total)
  %width = call i64 @amx.width(i8 %total)
  %left.rows = call i64 @amx.rows(i8 %left)
  %left.width = call i64 @amx.width(i8 %left)
  %right.rows = call i64 @amx.rows(i8 %right)
  %right.width = call i64 @amx.width(i8 %right)
  %columns = lshr i64 %width, 2
  %steps = lshr i64 %left.width, 2
  %a = icmp eq i64 %rows, %left.rows
  %b = icmp eq i64 %width, %right.width
  %c = icmp eq i64 %steps, %right.rows
  %d = icmp sgt i64 %rows, 0
  %e = icmp sgt i64 %columns, 0
  %f = icmp sgt i64 %steps, 0
  %ab = and i1 %a, %b
  %cd = and i1 %c, %d
  %ef = and i1 %e, %f
  %abcd = and i1 %ab, %cd
  %fits = and i1 %abcd, %ef
  br i1 %fits, label %element, label %refused
element:
  %n = phi i64 [ 0, %entry ], [ %next, %element ]
  %row = udiv i64 %n, %columns
  %column = urem i64 %n, %columns
  %p = call ptr @amx.word(i8 %total, i64 %row, i64 %column)
  %before = load i32, ptr %p
  %after = call i32 @amx.{element}(i8 %left, i8 %right, i64 %row, i64 %column, i64 %steps, i32 %before)
  store i32 %after, ptr %p
  %next = add i64 %n, 1
  %all = mul i64 %rows, %columns
  %more = icmp slt i64 %next, %all
  br i1 %more, label %element, label %done
refused:
  %start = call ptr @amx.word(i8 %total, i64 0, i64 0)
  call void @llvm.memset.p0.i64(ptr %start, i8 -1, i64 1024, i1 false)
  br label %done
done:
  ret void
}}
"""

_INSTRUCTIONS = "\n".join(
    (
        _STATE,
        "declare i32 @llvm.vector.reduce.add.v4i32(<4 x i32>)",
        _QUADS.format(sign="signed", extend="sext"),
        _QUADS.format(sign="unsigned", extend="zext"),
        _PRODUCT.format(instruction="tdpbf16ps", element="pairs"),
        _PRODUCT.format(instruction="tdpbssd", element="signed"),
        _PRODUCT.format(instruction="tdpbusd", element="unsigned"),
    )
)


def emulated(ir: str) -> str:
    """A module with functions in the place of AMX's instructions; without them, as it was."""
    if "@llvm.x86.t" not in ir:
        return ir
    kept = [line for line in ir.splitlines() if not line.startswith("declare") or not _of_amx(line)]
    text = "\n".join(kept)
    for name in _NAMES:
        text = text.replace(f"@llvm.x86.{name}(", f"@amx.{name}(")
    declared = {line for line in kept if line.startswith("declare")}
    own = "\n".join(line for line in _INSTRUCTIONS.splitlines() if line not in declared)
    return f"{text}\n{own}"


def _of_amx(line: str) -> bool:
    return any(f"@llvm.x86.{name}(" in line for name in _NAMES)
