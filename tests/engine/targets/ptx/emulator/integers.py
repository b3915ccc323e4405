"""Integer arithmetic, logic, shifts and bit fields."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.engine.targets.ptx.emulator.decode import Decoder, Execute, Read, instruction
from tests.engine.targets.ptx.emulator.kinds import FLOATS, SIGNED, UNSIGNED, raw
from tests.engine.targets.ptx.emulator.machine import Lanes, Machine

WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)


def computed(decoder: Decoder, function: Callable[..., np.ndarray], *sources: Read) -> Execute:
    """Stores a function of the sources into the first operand."""
    target = decoder.target(0)

    def execute(machine: Machine, lanes: Lanes) -> None:
        target(machine, lanes, function(*(source(machine, lanes) for source in sources)))

    return execute


def is_float(decoder: Decoder) -> bool:
    return decoder.kinds[-1] in FLOATS


def product_high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the products of integers."""
    size = a.dtype.itemsize
    if size < 8:
        wide = (SIGNED if a.dtype.kind == "i" else UNSIGNED)[2 * size]
        return (a.astype(wide) * b.astype(wide) >> 8 * size).astype(a.dtype)
    x, y = raw(a), raw(b)
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a0, a1, b0, b1 = x & low, x >> half, y & low, y >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    high = a1 * b1 + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.view(a.dtype)


def widened_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = (SIGNED if a.dtype.kind == "i" else UNSIGNED)[2 * a.dtype.itemsize]
    return a.astype(wide) * b.astype(wide)


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Towards zero; all bits set where the divisor is 0, which PTX leaves open."""
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    if a.dtype.kind == "u":
        return np.where(b == 0, np.iinfo(a.dtype).max, a // safe).astype(a.dtype)
    found = np.floor_divide(a, safe)
    found = found + ((a - found * safe != 0) & ((a < 0) != (safe < 0)))
    return np.where(b == 0, -1, found).astype(a.dtype)


def rest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """With the dividend's sign; the dividend where the divisor is 0, which PTX leaves open."""
    return np.where(b == 0, a, a - quotient(a, b) * b).astype(a.dtype)


def add(decoder: Decoder) -> Execute:
    """add, addc, sub and subc of integers, with carries where asked for."""
    (kind,) = decoder.kinds
    a, b, target = decoder.source(1, kind), decoder.source(2, kind), decoder.target(0)
    takes, gives, minus = decoder.name in ("addc", "subc"), decoder.has("cc"), decoder.name.startswith("sub")
    if not takes and not gives:
        decoder.only()
        return computed(decoder, np.subtract if minus else np.add, a, b)
    decoder.only("cc")

    def execute(machine: Machine, lanes: Lanes) -> None:
        x, y = raw(a(machine, lanes)), raw(b(machine, lanes))
        numbers = lanes.numbers()
        carry = machine.carry[numbers].astype(x.dtype) if takes else x.dtype.type(0)
        if minus:
            found = x - y - carry
            out = (x < y) | ((x == y) & (carry != 0))
        else:
            found = x + y + carry
            out = (found < x) | ((found == x) & (carry != 0))
        if gives:
            machine.carry[numbers] = out
        target(machine, lanes, np.array(np.broadcast_to(found, lanes.count)))

    return execute


@instruction("addc", "subc")
def _with_carry(decoder: Decoder) -> Execute:
    return add(decoder)


def multiply(decoder: Decoder) -> Execute:
    """mul.lo, .hi and .wide of integers."""
    decoder.only("lo", "hi", "wide")
    (kind,) = decoder.kinds
    function = widened_product if decoder.has("wide") else product_high if decoder.has("hi") else np.multiply
    return computed(decoder, function, decoder.source(1, kind), decoder.source(2, kind))


@instruction("mad")
def _mad(decoder: Decoder) -> Execute:
    decoder.only("lo", "hi", "wide")
    (kind,) = decoder.kinds
    if is_float(decoder):
        raise decoder.refuse("write fma")
    added = WIDER[kind] if decoder.has("wide") else kind
    product = widened_product if decoder.has("wide") else product_high if decoder.has("hi") else np.multiply
    sources = decoder.source(1, kind), decoder.source(2, kind), decoder.source(3, added)
    return computed(decoder, lambda a, b, c: product(a, b) + c, *sources)


def divide(decoder: Decoder) -> Execute:
    """div of integers."""
    decoder.only()
    (kind,) = decoder.kinds
    return computed(decoder, quotient, decoder.source(1, kind), decoder.source(2, kind))


@instruction("rem")
def _rem(decoder: Decoder) -> Execute:
    decoder.only()
    (kind,) = decoder.kinds
    return computed(decoder, rest, decoder.source(1, kind), decoder.source(2, kind))


_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_PREDICATES = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


@instruction("and", "or", "xor")
def _logic(decoder: Decoder) -> Execute:
    decoder.only()
    (kind,) = decoder.kinds
    if kind == "pred":
        return computed(decoder, _PREDICATES[decoder.name], decoder.condition(1), decoder.condition(2))
    return computed(decoder, _LOGIC[decoder.name], decoder.source(1, kind), decoder.source(2, kind))


@instruction("not")
def _not(decoder: Decoder) -> Execute:
    decoder.only()
    (kind,) = decoder.kinds
    if kind == "pred":
        return computed(decoder, np.logical_not, decoder.condition(1))
    return computed(decoder, np.invert, decoder.source(1, kind))


@instruction("shl", "shr")
def _shift(decoder: Decoder) -> Execute:
    """A count beyond the width shifts everything out."""
    decoder.only()
    (kind,) = decoder.kinds

    def shifted(value: np.ndarray, count: np.ndarray) -> np.ndarray:
        bits = 8 * value.dtype.itemsize
        outside = count >= bits
        kept = np.minimum(count, bits - 1).astype(value.dtype)
        if decoder.name == "shl":
            return np.where(outside, 0, value << kept).astype(value.dtype)
        found = value >> kept
        return found if value.dtype.kind == "i" else np.where(outside, 0, found).astype(value.dtype)

    return computed(decoder, shifted, decoder.source(1, kind), decoder.source(2, "u32"))


@instruction("shf")
def _funnel(decoder: Decoder) -> Execute:
    decoder.only("l", "r", "wrap", "clamp")
    wraps, left = decoder.has("wrap"), decoder.has("l")

    def shifted(low: np.ndarray, high: np.ndarray, count: np.ndarray) -> np.ndarray:
        count = (count & 31 if wraps else np.minimum(count, 32)).astype(np.uint64)
        both = high.astype(np.uint64) << np.uint64(32) | low
        found = both << count >> np.uint64(32) if left else both >> count
        return (found & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return computed(decoder, shifted, *(decoder.source(number, "u32") for number in (1, 2, 3)))


@instruction("bfe")
def _extract(decoder: Decoder) -> Execute:
    decoder.only()
    (kind,) = decoder.kinds

    def extracted(value: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
        """Bit i is bit start + i of the value, beyond the field or the value its last bit (unsigned: 0)."""
        last = 8 * value.dtype.itemsize - 1
        value, start, length = np.broadcast_arrays(value, start & 0xFF, length & 0xFF)
        start, length = start.astype(np.int64)[:, None], length.astype(np.int64)[:, None]
        one, places = raw(value).dtype.type(1), np.arange(last + 1)
        digits = raw(np.ascontiguousarray(value))[:, None] >> places.astype(one.dtype) & one
        end = np.where((length == 0) | (value.dtype.kind == "u"), 0, np.minimum(start + length - 1, last))
        sign = np.where((length == 0) | (value.dtype.kind == "u"), 0, np.take_along_axis(digits, end, -1))
        field = np.take_along_axis(digits, np.minimum(start + places, last), -1)
        chosen = np.where((places < length) & (start + places <= last), field, sign).astype(one.dtype)
        return (chosen << places.astype(one.dtype)).sum(-1, dtype=one.dtype).view(value.dtype)

    return computed(decoder, extracted, decoder.source(1, kind), decoder.source(2, "u32"), decoder.source(3, "u32"))


@instruction("bfi")
def _insert(decoder: Decoder) -> Execute:
    decoder.only()
    (kind,) = decoder.kinds

    def inserted(value: np.ndarray, base: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
        bits = 8 * value.dtype.itemsize
        start, length = start & 0xFF, length & 0xFF
        places = np.arange(bits)
        inside = (places >= start[..., None]) & (places < (start + length)[..., None])
        mask = np.where(inside, np.uint64(1) << places.astype(np.uint64), np.uint64(0)).sum(-1, dtype=np.uint64)
        moved = value.astype(np.uint64) << np.minimum(start, 63).astype(np.uint64)
        return ((base.astype(np.uint64) & ~mask) | (moved & mask)).astype(value.dtype)

    kinds = (kind, kind, "u32", "u32")
    return computed(decoder, inserted, *(decoder.source(number, each) for number, each in enumerate(kinds, 1)))


@instruction("prmt")
def _permute(decoder: Decoder) -> Execute:
    decoder.only()

    def permuted(a: np.ndarray, b: np.ndarray, selector: np.ndarray) -> np.ndarray:
        both = b.astype(np.uint64) << np.uint64(32) | a
        found = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), np.uint64)
        for place in range(4):
            choice = (selector >> np.uint32(4 * place)).astype(np.uint64)
            byte = both >> (choice & np.uint64(7)) * np.uint64(8) & np.uint64(0xFF)
            sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
            found |= np.where(choice & np.uint64(8), sign, byte) << np.uint64(8 * place)
        return found.astype(np.uint32)

    return computed(decoder, permuted, *(decoder.source(number, "u32") for number in (1, 2, 3)))


@instruction("lop3")
def _lookup(decoder: Decoder) -> Execute:
    decoder.only()
    table = decoder.operands[4]

    def looked_up(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        found = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
        for row in range(8):
            if table.value >> row & 1:  # type: ignore[union-attr]
                found |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return found

    return computed(decoder, looked_up, *(decoder.source(number, "u32") for number in (1, 2, 3)))


@instruction("popc", "clz", "brev", "bfind")
def _bits(decoder: Decoder) -> Execute:
    decoder.only()
    (kind,) = decoder.kinds

    def counted(values: np.ndarray) -> np.ndarray:
        size = 8 * values.dtype.itemsize
        each = (raw(values)[:, None] >> np.arange(size).astype(raw(values).dtype)) & 1
        if decoder.name == "popc":
            return each.sum(-1).astype(np.uint32)
        if decoder.name == "brev":
            weights = raw(values).dtype.type(1) << np.arange(size)[::-1].astype(raw(values).dtype)
            return (each * weights).sum(-1, dtype=raw(values).dtype)
        if decoder.name == "bfind" and values.dtype.kind == "i":
            each = np.where(values[:, None] < 0, 1 - each, each)
        any_bit = each.any(-1)
        highest = size - 1 - each[:, ::-1].argmax(-1)
        if decoder.name == "bfind":
            return np.where(any_bit, highest, 0xFFFFFFFF).astype(np.uint32)
        return np.where(any_bit, size - 1 - highest, size).astype(np.uint32)

    return computed(decoder, counted, decoder.source(1, kind))
