"""Integer division without traps, and Philox random bits."""

from __future__ import annotations

from trainer.engine.targets.cpu.kernels.vectors import splat
from trainer.engine.targets.cpu.kernels.writer import Writer, vector

_SMALLEST = {"i8": -(2**7), "i32": -(2**31), "i64": -(2**63)}
_EXACT_FLOAT = {"i8": "float", "i32": "double"}  # holds every quotient's whole part exactly
_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS = 10


def floor_divide(writer: Writer, element: str, lanes: int, signed: bool, a: str, b: str) -> str:
    """floor(a / b); 0 where b is 0, and the smallest integer divided by -1 wraps to itself."""
    quotient, remainder, safe = _divide(writer, element, lanes, signed, a, b)
    kind, mask = vector(element, lanes), vector("i1", lanes)
    if signed:
        fix = writer.value(f"sext {mask} {_signs_differ(writer, element, lanes, remainder, safe)} to {kind}")
        quotient = writer.value(f"add {kind} {quotient}, {fix}")
    return _zero_where_zero(writer, element, lanes, b, quotient)


def remainder(writer: Writer, element: str, lanes: int, signed: bool, a: str, b: str) -> str:
    """a - floor(a / b) * b, which has b's sign; 0 where b is 0."""
    _, rest, safe = _divide(writer, element, lanes, signed, a, b)
    kind, mask = vector(element, lanes), vector("i1", lanes)
    if signed:
        fix = _signs_differ(writer, element, lanes, rest, safe)
        added = writer.value(f"select {mask} {fix}, {kind} {safe}, {kind} {splat(element, '0')}")
        rest = writer.value(f"add {kind} {rest}, {added}")
    return _zero_where_zero(writer, element, lanes, b, rest)


def _divide(writer: Writer, element: str, lanes: int, signed: bool, a: str, b: str) -> tuple[str, str, str]:
    """(truncated quotient, its remainder, divisor made safe: 1 where it would trap)."""
    kind, mask = vector(element, lanes), vector("i1", lanes)
    unsafe = writer.value(f"icmp eq {kind} {b}, {splat(element, '0')}")
    if signed:
        minus_one = writer.value(f"icmp eq {kind} {b}, {splat(element, '-1')}")
        smallest = writer.value(f"icmp eq {kind} {a}, {splat(element, str(_SMALLEST[element]))}")
        unsafe = writer.value(f"or {mask} {unsafe}, {writer.value(f'and {mask} {minus_one}, {smallest}')}")
    safe = writer.value(f"select {mask} {unsafe}, {kind} {splat(element, '1')}, {kind} {b}")
    prefix = "s" if signed else "u"
    if element in _EXACT_FLOAT:  # vectors have no integer division, but a wider float's is exact enough
        wide = vector(_EXACT_FLOAT[element], lanes)
        dividend, divisor = (writer.value(f"{prefix}itofp {kind} {value} to {wide}") for value in (a, safe))
        quotient = writer.value(f"fpto{prefix}i {wide} {writer.value(f'fdiv {wide} {dividend}, {divisor}')} to {kind}")
    else:
        quotient = writer.value(f"{prefix}div {kind} {a}, {safe}")
    product = writer.value(f"mul {kind} {quotient}, {safe}")
    return quotient, writer.value(f"sub {kind} {a}, {product}"), safe


def _signs_differ(writer: Writer, element: str, lanes: int, rest: str, divisor: str) -> str:
    """Lanes whose remainder is not 0 and has another sign than the divisor: there the floor is one lower."""
    kind, mask = vector(element, lanes), vector("i1", lanes)
    crossed = writer.value(f"icmp slt {kind} {writer.value(f'xor {kind} {rest}, {divisor}')}, {splat(element, '0')}")
    present = writer.value(f"icmp ne {kind} {rest}, {splat(element, '0')}")
    return writer.value(f"and {mask} {present}, {crossed}")


def _zero_where_zero(writer: Writer, element: str, lanes: int, b: str, value: str) -> str:
    kind, mask, zero = vector(element, lanes), vector("i1", lanes), splat(element, "0")
    by_zero = writer.value(f"icmp eq {kind} {b}, {zero}")
    return writer.value(f"select {mask} {by_zero}, {kind} {zero}, {kind} {value}")


def random_bits(
    writer: Writer, lanes: int, key: tuple[str, str], index: str, counter: tuple[str, str], word: int
) -> str:
    """Output word `word` of Philox 4x32-10 at (index low, index high, counter), as i32 lanes.

    J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011). `index` is i64 lanes, the rest i32 lanes.
    """
    narrow, wide = vector("i32", lanes), vector("i64", lanes)

    def v(text: str) -> str:
        return writer.value(text)

    high_part = v(f"lshr {wide} {index}, {splat('i64', '32')}")
    state = [v(f"trunc {wide} {index} to {narrow}"), v(f"trunc {wide} {high_part} to {narrow}"), *counter]
    keys = list(key)
    for step in range(_PHILOX_ROUNDS):
        if step:
            keys = [v(f"add {narrow} {k}, {splat('i32', str(w))}") for k, w in zip(keys, _PHILOX_WEYL, strict=True)]
        (high0, low0), (high1, low1) = (
            _multiply_wide(writer, lanes, state[position], multiplier)
            for position, multiplier in zip((0, 2), _PHILOX_MULTIPLIERS, strict=True)
        )
        first = v(f"xor {narrow} {v(f'xor {narrow} {high1}, {state[1]}')}, {keys[0]}")
        third = v(f"xor {narrow} {v(f'xor {narrow} {high0}, {state[3]}')}, {keys[1]}")
        state = [first, low1, third, low0]
    return state[word]


def _multiply_wide(writer: Writer, lanes: int, value: str, multiplier: int) -> tuple[str, str]:
    """(high, low) halves of the 64-bit products of i32 lanes and a constant.

    Takes an even number of lanes: even and odd ones are multiplied in place, as 64-bit lanes.
    """
    narrow, pairs = vector("i32", lanes), vector("i64", lanes // 2)

    def v(text: str) -> str:
        return writer.value(text)

    def whole(number: int) -> str:
        return splat("i64", str(number))

    joined = v(f"bitcast {narrow} {value} to {pairs}")
    lower, upper = whole(0xFFFFFFFF), whole(-(1 << 32))
    even = v(f"mul {pairs} {v(f'and {pairs} {joined}, {lower}')}, {whole(multiplier)}")
    odd = v(f"mul {pairs} {v(f'lshr {pairs} {joined}, {whole(32)}')}, {whole(multiplier)}")
    high = v(f"or {pairs} {v(f'lshr {pairs} {even}, {whole(32)}')}, {v(f'and {pairs} {odd}, {upper}')}")
    low = v(f"or {pairs} {v(f'and {pairs} {even}, {lower}')}, {v(f'shl {pairs} {odd}, {whole(32)}')}")
    return v(f"bitcast {pairs} {high} to {narrow}"), v(f"bitcast {pairs} {low} to {narrow}")
