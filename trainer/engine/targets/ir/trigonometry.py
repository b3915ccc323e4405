"""Sine and cosine over the whole range: Cody-Waite reduction, and Payne-Hanek for arguments too large for it.

The reduction is a helper function of the module, since its rare path loops over lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.targets.ir.mathematics import round_to_integer
from trainer.engine.targets.ir.vectors import Floats, float_literal
from trainer.engine.targets.ir.writer import Writer

_TWO_OVER_PI = 0.6366197723675814
# pi / 2 as a sum of three; the first product is exact by fused multiply-add
_HALF_PI = {
    "float": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
_DIRECT_LIMIT = {"float": 2.0**17, "double": 2.0**20}  # above it, the three terms leave too few bits

# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2, for |r| <= pi / 4
_SINE = {
    "float": (-0.000195141137645640122, 0.00833215532145220215, -0.166666545958205184),
    "double": (
        1.58952331651965948e-10, -2.50507319911069309e-8, 2.75573135308934562e-6, -0.000198412698293623305,
        0.0083333333333218837, -0.1666666666666663,
    ),
}  # fmt: skip
_COSINE = {
    "float": (0.0000244349469771898995, -0.00138873381102835924, 0.0416666462939819236),
    "double": (
        -1.13586597919022724e-11, 2.08757050118375959e-9, -2.75573142247460603e-7, 0.0000248015872890672355,
        -0.00138888888888735097, 0.0416666666666665963,
    ),
}  # fmt: skip
# the binary digits of 2 / pi, 64 at a time, after one word of zeros
_TWO_OVER_PI_BITS = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)  # fmt: skip


# (atan(r) / r - 1) / r**2 in r**2, for |r| <= tan(pi / 8): for float32 a polynomial (Chebyshev nodes), for float64 a
# quotient of two polynomials (Moshier, Cephes 2.8)
_ARCTANGENT = (
    -0.0645730197429657, 0.1074567586183548, -0.14264175295829773, 0.1999954879283905, -0.3333333134651184,
)  # fmt: skip
_ARCTANGENT_ABOVE = (
    -8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1, -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)  # fmt: skip
_ARCTANGENT_BELOW = (
    1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2, 4.853903996359136964868e2,
    1.945506571482613964425e2,
)  # fmt: skip
_TAN_PI_8 = 0.41421356237309503


def atan2(f: Floats, y: str, x: str) -> str:
    """The angle of (x, y) in radians, with C99's values at zeros and infinities.

    The smaller of |x| and |y| divided by the larger is in [0, 1]; above tan(pi / 8), the angle is reduced by pi / 4.
    """
    zero, one = f.constant(0.0), f.constant(1.0)
    half_pi, low = _HALF_PI[f.element][:2]
    a, b = f.unary("fabs", y), f.unary("fabs", x)
    is_steep = f.compare("ogt", a, b)
    large, small = f.select(is_steep, a, b), f.select(is_steep, b, a)
    ratio = f.select(f.compare("oeq", large, small), one, f.divide(small, large))  # both may be infinite
    ratio = f.select(f.compare("oeq", large, zero), zero, ratio)
    lost = f.divide(f.fma(f.negate(ratio), large, small), f.multiply(large, f.fma(ratio, ratio, one)))
    lost = f.select(f.compare("ord", lost, lost), lost, zero)  # to the quotient's rounding; NaN at zeros and infinities
    is_high = f.compare("ogt", ratio, f.constant(_TAN_PI_8))
    turned = f.divide(f.subtract(ratio, one), f.add(ratio, one))
    r = f.select(is_high, turned, ratio)
    z = f.multiply(r, r)
    if f.element == "float":
        tail = f.horner(z, _ARCTANGENT)
    else:
        tail = f.divide(f.horner(z, _ARCTANGENT_ABOVE), f.horner(z, _ARCTANGENT_BELOW))
    tail = f.fma(f.multiply(z, tail), r, lost)
    # undo the reductions by pi / 4, pi / 2 and pi: the angle is k pi / 4 + s (r + tail)
    is_left = f.writer.value(f"icmp slt {f.bits} {f.to_bits(x)}, zeroinitializer")
    steps = f.select(is_high, one, zero)
    steps = f.select(is_steep, f.subtract(f.constant(2.0), steps), steps)
    is_mirrored = f.logical("xor", is_steep, is_left)
    steps = f.select(is_left, f.subtract(f.constant(4.0), steps), steps)
    r, tail = (f.select(is_mirrored, f.negate(each), each) for each in (r, tail))
    angle = f.multiply(steps, f.constant(half_pi / 2))
    total = f.add(angle, f.add(r, f.fma(steps, f.constant(low / 2), tail)))
    total = f.select(f.compare("uno", x, y), f.add(x, y), total)
    return f.copysign(total, y)


def sin(f: Floats, x: str) -> str:
    """The sine of x radians; NaN for infinities."""
    result = _quadrant_value(f, x, 0)
    return f.select(f.compare("oeq", x, f.constant(0.0)), x, result)


def cos(f: Floats, x: str) -> str:
    """The cosine of x radians; NaN for infinities."""
    return _quadrant_value(f, x, 1)


def _quadrant_value(f: Floats, x: str, shift: int) -> str:
    """sin(x + shift * pi / 2)."""
    high, low, quadrant = _reduce(f, x)
    if shift:
        quadrant = f.integer_operation("add", quadrant, f.whole(shift))
    z = f.multiply(high, high)
    half = f.multiply(z, f.constant(0.5))
    # sine: high + (high z S + low (1 - z/2))
    sine_tail = f.fma(f.negate(low), half, low)
    sine = f.add(high, f.fma(f.multiply(high, z), f.horner(z, _SINE[f.element]), sine_tail))
    # cosine: w + ((1 - w - z/2) + (z z C - high low)), w = 1 - z/2
    whole = f.subtract(f.constant(1.0), half)
    lost = f.subtract(f.subtract(f.constant(1.0), whole), half)
    cross = f.fma(f.negate(high), low, lost)
    cosine = f.add(whole, f.fma(f.multiply(z, z), f.horner(z, _COSINE[f.element]), cross))
    odd = _bit(f, quadrant, 1)
    chosen = f.select(odd, cosine, sine)
    return f.select(_bit(f, quadrant, 2), f.negate(chosen), chosen)


def _bit(f: Floats, value: str, bit: int) -> str:
    masked = f.integer_operation("and", value, f.whole(bit))
    return f.writer.value(f"icmp ne {f.bits} {masked}, {f.whole(0)}")


def _reduce(f: Floats, x: str) -> tuple[str, str, str]:
    """Returns (high, low, quadrant): x = quadrant * pi / 2 + high + low, with |high| at most slightly above pi / 4."""
    result = f"{{ {f.type}, {f.type}, {f.bits} }}"

    def build(writer: Writer) -> None:
        _write_reduction(Floats(writer, f.element, f.lanes), result)

    name = f.writer.helper(f"reduce_angle_{f.element}_{f.lanes}", result, [(f.type, "%x")], build)
    reduced = f.writer.call(result, name, (f.type, x))
    return tuple(f.writer.value(f"extractvalue {result} {reduced}, {i}") for i in range(3))  # type: ignore[return-value]


def _write_reduction(f: Floats, result: str) -> None:
    writer = f.writer
    kinds, elements = (f.type, f.type, f.type, f.bits), (f.element, f.element, f.element, f.integer)
    memory = [writer.value(f"alloca {kind}, align 64") for kind in kinds] if f.lanes > 1 else []
    n, quadrant = round_to_integer(f, "%x", _TWO_OVER_PI)
    first, second, third = (f.constant(part) for part in _HALF_PI[f.element])
    minus = f.negate(n)
    exact = f.fma(minus, first, "%x")
    product = f.multiply(minus, second)
    high = f.add(exact, product)
    moved = f.subtract(high, exact)  # Knuth's two-sum: either term may be the larger
    lost = f.add(f.subtract(exact, f.subtract(high, moved)), f.subtract(product, moved))
    low = f.fma(minus, third, f.add(lost, f.fma(minus, second, f.negate(product))))
    size = f.unary("fabs", "%x")
    large = f.compare("ogt", size, f.constant(_DIRECT_LIMIT[f.element]))
    finite = f.compare("olt", size, f.constant(float("inf")))
    huge = f.logical("and", large, finite)
    word = writer.value(f"bitcast {f.mask} {huge} to i{f.lanes}")
    some = writer.value(f"icmp ne i{f.lanes} {word}, 0")
    writer.branch_if(some, "rare", "usual")
    writer.label("usual")
    _return(writer, result, kinds[1:], [high, low, quadrant])
    writer.label("rare")
    if f.lanes == 1:
        x = writer.value(f"extractelement {f.type} %x, i64 0")
        scalars = _huge_reduction(f, x)
        vectors = [
            writer.value(f"insertelement {kind} poison, {element} {value}, i64 0")
            for kind, element, value in zip(kinds[1:], elements[1:], scalars, strict=True)
        ]
        _return(writer, result, kinds[1:], vectors)
        return
    for kind, value, place in zip(kinds, ("%x", high, low, quadrant), memory, strict=True):
        writer.emit(f"store {kind} {value}, ptr {place}, align 64")
    writer.branch("lane")
    writer.label("lane")
    writer.emit("%i = phi i64 [ 0, %rare ], [ %next, %after ]")
    shifted = writer.value(f"lshr i{f.lanes} {word}, {_truncated(writer, '%i', f.lanes)}")
    chosen = writer.value(f"trunc i{f.lanes} {shifted} to i1")
    writer.branch_if(chosen, "reduce", "after")
    writer.label("reduce")
    pairs = zip(elements, memory, strict=True)
    places = [writer.value(f"getelementptr {kind}, ptr {place}, i64 %i") for kind, place in pairs]
    x = writer.value(f"load {f.element}, ptr {places[0]}")
    for kind, value, place in zip(elements[1:], _huge_reduction(f, x), places[1:], strict=True):
        writer.emit(f"store {kind} {value}, ptr {place}")
    writer.branch("after")
    writer.label("after")
    writer.emit("%next = add i64 %i, 1")
    more = writer.value(f"icmp ult i64 %next, {f.lanes}")
    writer.branch_if(more, "lane", "done")
    writer.label("done")
    reduced = zip(kinds[1:], memory[1:], strict=True)
    loaded = [writer.value(f"load {kind}, ptr {place}, align 64") for kind, place in reduced]
    _return(writer, result, kinds[1:], loaded)


def _huge_reduction(f: Floats, x: str) -> tuple[str, str, str]:
    """Returns (high, low, quadrant) of one element."""
    writer = f.writer
    wide = writer.value(f"fpext float {x} to double") if f.element == "float" else x
    scalar = "{ double, double, i64 }"
    name = writer.helper("reduce_huge_angle", scalar, [("double", "%x")], _write_payne_hanek)
    parts = writer.call(scalar, name, ("double", wide))
    head, tail, turn = (writer.value(f"extractvalue {scalar} {parts}, {i}") for i in range(3))
    if f.element == "float":
        narrow = writer.value(f"fptrunc double {head} to float")
        rest = writer.value(f"fsub double {head}, {writer.value(f'fpext float {narrow} to double')}")
        head, tail = narrow, writer.value(f"fptrunc double {writer.value(f'fadd double {rest}, {tail}')} to float")
        turn = writer.value(f"trunc i64 {turn} to i32")
    return head, tail, turn


def _truncated(writer: Writer, value: str, bits: int) -> str:
    return value if bits == 64 else writer.value(f"trunc i64 {value} to i{bits}")


def _return(writer: Writer, result: str, kinds: Sequence[str], values: Sequence[str]) -> None:
    aggregate = "poison"
    for position, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        aggregate = writer.value(f"insertvalue {result} {aggregate}, {kind} {value}, {position}")
    writer.emit(f"ret {result} {aggregate}")


def _write_payne_hanek(writer: Writer) -> None:
    """Writes the reduction for finite |x| >= 2**17: x * 2/pi modulo 4 in fixed point with 190 fractional bits.

    M. Payne and R. Hanek, Radian reduction for trigonometric functions, SIGNUM Newsletter 18 (1983).
    """
    v = writer.value
    words = ", ".join(f"i64 {word}" for word in _TWO_OVER_PI_BITS)
    table = writer.constant("two_over_pi", f"[{len(_TWO_OVER_PI_BITS)} x i64] [{words}]")
    bits = v("bitcast double %x to i64")
    exponent = v(f"and i64 {v(f'lshr i64 {bits}, 52')}, 2047")
    fraction = v(f"and i64 {bits}, {(1 << 52) - 1}")
    mantissa = v(f"or i64 {fraction}, {1 << 52}")
    # x = mantissa * 2**(exponent - 1075); the first relevant digit of 2/pi has weight 2**1 after scaling; one word of
    # zeros precedes the digits
    position = v(f"sub i64 {exponent}, {1075 + 2 - 64}")
    first = v(f"lshr i64 {position}, 6")
    offset = v(f"zext i64 {v(f'and i64 {position}, 63')} to i256")
    window = "0"
    for step in range(4):
        place = v(f"getelementptr i64, ptr {table}, i64 {v(f'add i64 {first}, {step}')}")
        word = v(f"zext i64 {v(f'load i64, ptr {place}')} to i256")
        window = v(f"or i256 {window}, {v(f'shl i256 {word}, {64 * (3 - step)}')}")
    aligned = v(f"shl i256 {window}, {offset}")
    digits = v(f"trunc i256 {v(f'lshr i256 {aligned}, 64')} to i192")
    # multiply 192 by 53 bits in words: an i192 multiplication would become a library call on some targets
    product = _multiply_words(writer, digits, mantissa)
    rounded = v(f"add i192 {product}, {1 << 189}")
    turns = v(f"lshr i192 {rounded}, 190")
    turn = v(f"trunc i192 {turns} to i64")
    remainder = v(f"sub i192 {product}, {v(f'shl i192 {turns}, 190')}")
    top = v(f"trunc i192 {v(f'ashr i192 {remainder}, 128')} to i64")
    middle = v(f"trunc i192 {v(f'lshr i192 {remainder}, 64')} to i64")
    # value = top 2**-62 + middle 2**-126, in double-double
    head = v(f"sitofp i64 {top} to double")
    left = v(f"sub i64 {top}, {v(f'fptosi double {head} to i64')}")
    scale, fine = float_literal(2.0**-62, "double"), float_literal(2.0**-126, "double")
    a = v(f"fmul double {head}, {scale}")
    left_float, middle_float = v(f"sitofp i64 {left} to double"), v(f"uitofp i64 {middle} to double")
    b = v(f"fadd double {v(f'fmul double {left_float}, {scale}')}, {v(f'fmul double {middle_float}, {fine}')}")
    total = v(f"fadd double {a}, {b}")
    low = v(f"fadd double {v(f'fsub double {a}, {total}')}, {b}")
    half_pi, half_pi_low = (float_literal(part, "double") for part in _HALF_PI["double"][:2])
    f = ("double", total)
    high = v(f"fmul double {total}, {half_pi}")
    lost = writer.intrinsic("fma.f64", "double", f, ("double", half_pi), ("double", v(f"fneg double {high}")))
    lost = writer.intrinsic("fma.f64", "double", f, ("double", half_pi_low), ("double", lost))
    rest = writer.intrinsic("fma.f64", "double", ("double", low), ("double", half_pi), ("double", lost))
    negative = v(f"icmp slt i64 {bits}, 0")
    results = [v(f"select i1 {negative}, double {v(f'fneg double {part}')}, double {part}") for part in (high, rest)]
    results.append(v(f"select i1 {negative}, i64 {v(f'sub i64 0, {turn}')}, i64 {turn}"))
    _return(writer, "{ double, double, i64 }", ("double", "double", "i64"), results)


def _multiply_words(writer: Writer, digits: str, factor: str) -> str:
    """Returns the low 192 bits of a 192-bit number times a 64-bit one, from 64-bit products with 128-bit results."""
    v = writer.value
    wide = v(f"zext i64 {factor} to i128")
    total = "0"
    for step in range(3):
        word = v(f"trunc i192 {v(f'lshr i192 {digits}, {64 * step}')} to i64")
        part = v(f"mul i128 {v(f'zext i64 {word} to i128')}, {wide}")
        extended = v(f"zext i128 {part} to i192")
        total = v(f"add i192 {total}, {v(f'shl i192 {extended}, {64 * step}') if step else extended}")
    return total
