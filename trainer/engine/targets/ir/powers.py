"""x**y for floats, and integer powers by squaring.

float32 is computed in float64, with an error of half a unit in the last place; float64 represents the logarithm as a
sum of two doubles.
"""

from __future__ import annotations

from trainer.engine.targets.ir.mathematics import exp, log, small_integer_to_float, split_exponent
from trainer.engine.targets.ir.vectors import Floats, Integers, splat
from trainer.engine.targets.ir.writer import Writer

_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# (2 atanh(s) / s - 2 - 2/3 s**2) / s**4 in s**2
_LOG_REST = (
    0.120036967195547565, 0.116730625335121715, 0.133364034277234291, 0.153845546535213196, 0.181818189024417347,
    0.222222222172790803, 0.285714285714461426, 0.39999999999999976,
)  # fmt: skip


def power(f: Floats, x: str, y: str) -> str:
    """x**y with C99's special values (x**0 and 1**y are 1; a negative x needs an integer y)."""
    size = f.unary("fabs", x)
    magnitude = _through_double(f, size, y) if f.element == "float" else _double(f, size, y)
    one, zero = f.constant(1.0), f.constant(0.0)
    integral = f.compare("oeq", f.unary("trunc", y), y)
    half = f.multiply(y, f.constant(0.5))
    odd = f.logical("and", integral, f.compare("one", f.unary("trunc", half), half))
    signed = f.select(odd, f.copysign(magnitude, x), magnitude)
    below = f.logical("and", f.compare("olt", x, zero), f.compare("olt", size, f.constant(float("inf"))))
    invalid = f.logical("and", below, f.compare("one", f.unary("trunc", y), y))
    result = f.select(invalid, f.constant(float("nan")), signed)
    infinite_power = f.compare("oeq", f.unary("fabs", y), f.constant(float("inf")))
    unit = f.logical("and", f.compare("oeq", size, one), infinite_power)
    always_one = f.logical("or", f.logical("or", f.compare("oeq", x, one), f.compare("oeq", y, zero)), unit)
    return f.select(always_one, one, result)


def _through_double(f: Floats, size: str, y: str) -> str:
    wide = Floats(f.writer, "double", f.lanes)
    a, b = (f.writer.value(f"fpext {f.type} {value} to {wide.type}") for value in (size, y))
    result = exp(wide, wide.multiply(log(wide, a), b))
    return f.writer.value(f"fptrunc {wide.type} {result} to {f.type}")


def _double(f: Floats, size: str, y: str) -> str:
    high, low = _precise_log(f, size)
    product = f.multiply(high, y)
    rest = f.fma(low, y, f.fma(high, y, f.negate(product)))
    usable = f.compare("olt", f.unary("fabs", product), f.constant(1024.0))
    return exp(f, product, f.select(usable, rest, f.constant(0.0)))


def _two_sum(f: Floats, a: str, b: str) -> tuple[str, str]:
    """Returns a + b as a rounded sum and its error, for |a| >= |b| or a = 0."""
    total = f.add(a, b)
    return total, f.subtract(b, f.subtract(total, a))


def _two_product(f: Floats, a: str, b: str) -> tuple[str, str]:
    product = f.multiply(a, b)
    return product, f.fma(a, b, f.negate(product))


def _precise_log(f: Floats, x: str) -> tuple[str, str]:
    """Returns log(x) as a sum of two, relative error about 2**-66; (-inf, 0) at 0 and (inf, 0) at infinity."""
    k, mantissa = split_exponent(f, x)
    one = f.constant(1.0)
    fraction = f.subtract(mantissa, one)
    below, below_rest = _two_sum(f, one, mantissa)  # |1 - m| errors are exact: m is within a factor of two of 1
    s = f.divide(fraction, below)
    remainder = f.fma(f.negate(s), below_rest, f.fma(f.negate(s), below, fraction))
    s_rest = f.divide(remainder, below)
    z, z_rest = _two_product(f, s, s)
    z_rest = f.fma(f.multiply(s, s_rest), f.constant(2.0), z_rest)
    # 2/3 z + z**2 P(z), as a sum of two
    third, third_rest = _two_product(f, z, f.constant(_TWO_THIRDS[0]))
    third_rest = f.fma(z_rest, f.constant(_TWO_THIRDS[0]), f.fma(z, f.constant(_TWO_THIRDS[1]), third_rest))
    series, series_rest = _two_sum(f, third, f.multiply(f.multiply(z, z), f.horner(z, _LOG_REST)))
    series_rest = f.add(series_rest, third_rest)
    # s * series
    cubic, cubic_rest = _two_product(f, s, series)
    cubic_rest = f.fma(s_rest, series, f.fma(s, series_rest, cubic_rest))
    # k ln 2 + 2 s + cubic
    scale = small_integer_to_float(f, k)
    base, base_rest = _two_product(f, scale, f.constant(_LN2[0]))
    base_rest = f.fma(scale, f.constant(_LN2[1]), base_rest)
    double_s = f.add(s, s)
    first, first_rest = _two_sum(f, base, double_s)
    second, second_rest = _two_sum(f, first, cubic)
    rest = f.add(f.add(first_rest, second_rest), f.add(base_rest, f.add(cubic_rest, f.add(s_rest, s_rest))))
    high, low = _two_sum(f, second, rest)
    infinite = f.compare("oeq", x, f.constant(float("inf")))
    zero = f.compare("oeq", x, f.constant(0.0))
    high = f.select(zero, f.constant(float("-inf")), f.select(infinite, x, high))
    high = f.select(f.compare("uno", x, x), x, high)
    special = f.logical("or", zero, infinite)
    return high, f.select(special, f.constant(0.0), low)


def integer_power(v: Integers, x: str, y: str) -> str:
    """x**y modulo 2**width, by squaring; a negative exponent gives 0, or +-1 where |x| = 1."""
    kind, one, zero = v.type, v.constant(1), v.constant(0)

    def build(inner: Writer) -> None:
        inner.branch("square")
        inner.label("square")
        inner.emit(f"%total = phi {kind} [ {one}, %entry ], [ %next, %square ]")
        inner.emit(f"%base = phi {kind} [ %x, %entry ], [ %squared, %square ]")
        inner.emit(f"%left = phi {kind} [ %y, %entry ], [ %rest, %square ]")
        bit = inner.value(f"trunc {kind} %left to {v.mask}")
        inner.emit(f"%next = select {v.mask} {bit}, {kind} {inner.value(f'mul {kind} %total, %base')}, {kind} %total")
        inner.emit(f"%squared = mul {kind} %base, %base")
        inner.emit(f"%rest = lshr {kind} %left, {one}")
        some = inner.intrinsic(f"vector.reduce.or.v{v.lanes}{v.element}", v.element, (kind, "%rest"))
        inner.branch_if(inner.value(f"icmp ne {v.element} {some}, 0"), "square", "done")
        inner.label("done")
        inner.emit(f"ret {kind} %next")

    name = v.writer.helper(f"power_{v.element}_{v.lanes}", kind, [(kind, "%x"), (kind, "%y")], build)
    if not v.signed:
        return v.writer.call(kind, name, (kind, x), (kind, y))
    negative = v.operation("icmp slt", y, zero)
    # for |x| = 1 the reciprocal is x itself, so only the parity of y matters; other x have no integer reciprocal
    exponent = v.select(negative, v.operation("and", y, one), y)
    result = v.writer.call(kind, name, (kind, x), (kind, exponent))
    is_unit = v.logical("or", v.operation("icmp eq", x, one), v.operation("icmp eq", x, v.constant(-1)))
    vanishes = v.logical("and", negative, v.logical("xor", is_unit, splat("i1", "true")))
    return v.select(vanishes, zero, result)
