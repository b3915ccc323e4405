"""Integer division without traps, and Philox random bits."""

from __future__ import annotations

from trainer.engine.targets.ir.vectors import Integers
from trainer.engine.targets.ir.writer import Writer, vector

_SMALLEST = {"i8": -(2**7), "i16": -(2**15), "i32": -(2**31), "i64": -(2**63)}
_EXACT_FLOAT = {"i8": "float", "i16": "float", "i32": "double"}  # holds the integer part of every quotient exactly
_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS = 10


def floor_divide(v: Integers, a: str, b: str) -> str:
    """floor(a / b); 0 where b is 0, and the smallest integer divided by -1 wraps to itself."""
    quotient, rest, safe = _divide(v, a, b)
    if v.signed:
        fix = v.writer.value(f"sext {v.mask} {_signs_differ(v, rest, safe)} to {v.type}")
        quotient = v.operation("add", quotient, fix)
    return _zero_where_zero(v, b, quotient)


def remainder(v: Integers, a: str, b: str) -> str:
    """a - floor(a / b) * b, which has b's sign; 0 where b is 0."""
    _, rest, safe = _divide(v, a, b)
    if v.signed:
        rest = v.operation("add", rest, v.select(_signs_differ(v, rest, safe), safe, v.constant(0)))
    return _zero_where_zero(v, b, rest)


def _divide(v: Integers, a: str, b: str) -> tuple[str, str, str]:
    """Returns (truncated quotient, its remainder, safe divisor: 1 where the division would trap)."""
    writer = v.writer
    unsafe = v.operation("icmp eq", b, v.constant(0))
    if v.signed:
        minus_one = v.operation("icmp eq", b, v.constant(-1))
        smallest = v.operation("icmp eq", a, v.constant(_SMALLEST[v.element]))
        unsafe = v.logical("or", unsafe, v.logical("and", minus_one, smallest))
    safe = v.select(unsafe, v.constant(1), b)
    prefix = "s" if v.signed else "u"
    if v.element in _EXACT_FLOAT:  # vectors have no integer division, but division in a wider float is exact enough
        wide = vector(_EXACT_FLOAT[v.element], v.lanes)
        dividend, divisor = (writer.value(f"{prefix}itofp {v.type} {value} to {wide}") for value in (a, safe))
        exact = writer.value(f"fdiv {wide} {dividend}, {divisor}")
        quotient = writer.value(f"fpto{prefix}i {wide} {exact} to {v.type}")
    else:
        quotient = v.operation(f"{prefix}div", a, safe)
    return quotient, v.operation("sub", a, v.operation("mul", quotient, safe)), safe


def _signs_differ(v: Integers, rest: str, divisor: str) -> str:
    """Lanes whose remainder is not 0 and differs in sign from the divisor: the floor is one lower in them."""
    crossed = v.operation("icmp slt", v.operation("xor", rest, divisor), v.constant(0))
    return v.logical("and", v.operation("icmp ne", rest, v.constant(0)), crossed)


def _zero_where_zero(v: Integers, b: str, value: str) -> str:
    return v.select(v.operation("icmp eq", b, v.constant(0)), v.constant(0), value)


def random_bits(
    writer: Writer, lanes: int, key: tuple[str, str], index: str, counter: tuple[str, str], word: int
) -> str:
    """Returns item `word` of `random_words`."""
    return random_words(writer, lanes, key, index, counter)[word]


def random_words(writer: Writer, lanes: int, key: tuple[str, str], index: str, counter: tuple[str, str]) -> list[str]:
    """Returns the four output words of Philox 4x32-10 at (index low, index high, counter), as i32 lanes.

    J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011). `index` is i64 lanes, the rest i32 lanes.
    """
    narrow, wide = Integers(writer, "i32", lanes, signed=False), Integers(writer, "i64", lanes, signed=False)
    high_part = wide.operation("lshr", index, wide.constant(32))
    halves = [writer.value(f"trunc {wide.type} {part} to {narrow.type}") for part in (index, high_part)]
    state, keys = [*halves, *counter], list(key)
    for step in range(_PHILOX_ROUNDS):
        if step:
            keys = [narrow.operation("add", k, narrow.constant(w)) for k, w in zip(keys, _PHILOX_WEYL, strict=True)]
        (high0, low0), (high1, low1) = (
            _multiply_wide(narrow, state[position], multiplier)
            for position, multiplier in zip((0, 2), _PHILOX_MULTIPLIERS, strict=True)
        )
        first = narrow.operation("xor", narrow.operation("xor", high1, state[1]), keys[0])
        third = narrow.operation("xor", narrow.operation("xor", high0, state[3]), keys[1])
        state = [first, low1, third, low0]
    return state


def _multiply_wide(narrow: Integers, value: str, multiplier: int) -> tuple[str, str]:
    """Returns the (high, low) halves of the 64-bit products of i32 lanes and a constant.

    If the number of lanes is even, even and odd lanes are multiplied in place, as 64-bit lanes.
    """
    if narrow.lanes % 2:
        whole = Integers(narrow.writer, "i64", narrow.lanes, signed=False)
        wide = whole.writer.value(f"zext {narrow.type} {value} to {whole.type}")
        product = whole.operation("mul", wide, whole.constant(multiplier))
        parts = (whole.operation("lshr", product, whole.constant(32)), product)
        first, second = (whole.writer.value(f"trunc {whole.type} {part} to {narrow.type}") for part in parts)
        return first, second
    pairs = Integers(narrow.writer, "i64", narrow.lanes // 2, signed=False)

    def v(name: str, a: str, b: int | str) -> str:
        return pairs.operation(name, a, pairs.constant(b) if isinstance(b, int) else b)

    joined = pairs.writer.value(f"bitcast {narrow.type} {value} to {pairs.type}")
    lower, upper = 0xFFFFFFFF, -(1 << 32)
    even = v("mul", v("and", joined, lower), multiplier)
    odd = v("mul", v("lshr", joined, 32), multiplier)
    high = v("or", v("lshr", even, 32), v("and", odd, upper))
    low = v("or", v("and", even, lower), v("shl", odd, 32))
    high, low = (pairs.writer.value(f"bitcast {pairs.type} {half} to {narrow.type}") for half in (high, low))
    return high, low
