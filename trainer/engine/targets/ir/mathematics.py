"""Exponentials, logarithms and related functions on vectors, from polynomials: a kernel calls no mathematics library.

Each function takes `Floats` (which emits) and value names, and returns a value name. Infinities, NaN, signed zero and
overflow follow C99's annex F. The coefficients are minimax fits (Remez, 60 digits) over the reduced range.
`MAXIMUM_ULP` lists for each function the largest error found in a dense sweep of all exponents, in units in the last
place of the result; the tests verify it.
"""

from __future__ import annotations

from trainer.engine.targets.ir.vectors import Floats

MAXIMUM_ULP: dict[str, tuple[float, float]] = {  # operation: (float32, float64)
    "exp": (1.1, 0.9),
    "expm1": (1.7, 1.6),
    "log": (1.0, 1.0),
    "log1p": (1.0, 1.0),
    "tanh": (2.0, 2.0),
    "logistic": (2.0, 2.0),
    "erf": (1.3, 1.2),
    "sin": (1.0, 1.0),
    "cos": (1.0, 1.0),
    "power": (0.6, 1.5),
    "atan2": (2.0, 2.0),
}

LN2 = {
    "float": (0.693147182464599609375, -1.90465429995776804525e-9),
    "double": (0.6931471805599453, 2.319046813846299558e-17),
}
_LOG2_E = 1.4426950408889634
_SQRT_HALF_BITS = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}
_ONE_BITS = {"float": 0x3F800000, "double": 0x3FF0000000000000}
_EXP_RANGE = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
_SMALLEST_EXPONENT = {"float": -87.336, "double": -708.396}
"""Below this x, e**x is subnormal."""
_EXPM1_LOW = {"float": -18.0, "double": -40.0}
_SMALLEST_NORMAL = {"float": 2.0**-126, "double": 2.0**-1022}

# (e**r - 1 - r) / r**2 for |r| <= ln(2) / 2
_EXP = {
    "float": (
        0.00139476071833432543, 0.00836724681683637708, 0.0416662663827539875, 0.166665380151881045,
        0.500000006576869119,
    ),
    "double": (
        2.09253820322348346e-9, 2.51101788055944605e-8, 2.75572397302478088e-7, 2.75572411643532309e-6,
        0.0000248015873640803542, 0.000198412698888925254, 0.00138888888888650724, 0.00833333333332065493,
        0.0416666666666667049, 0.166666666666666776, 0.5,
    ),
}  # fmt: skip
# (2 atanh(s) / s - 2) / s**2 in z = s**2, for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1)
_LOG = {
    "float": (0.23593287758029336, 0.285367892095090199, 0.400003420234662397, 0.666666656236363285),
    "double": (
        0.148075374938589721, 0.153130025881263111, 0.181836004776230637, 0.222221979835413451, 0.285714287469053963,
        0.399999999994013574, 0.666666666666673492,
    ),
}  # fmt: skip
# erf(c + d) in d for the sixteen c = 0, 1/4, ... and |d| <= 1/8 (least squares in units of the result, each coefficient
# rounded before the next was fitted); at c = 0 without d itself. The last piece reaches 1 at _ERF_LIMIT.
_ERF_PIECES = (
    (0.111142114, 0.0809914768, 0.010534321, -0.0524892434, -0.0686337203, -0.0470736697, -0.014991032, 0.00644455664,
     0.0130051579, 0.0106403967, 0.00613094633, 0.00277341274, 0.00102722272, 0.000318467326, 8.3716368e-05,
     1.8819419e-05),
    (0.000249270146, 0.126073375, 0.182081819, 0.150353163, 0.0691057593, -0.00553816417, -0.0439587086, -0.0477096587,
     -0.0341450498, -0.0189027116, -0.00905702449, -0.00317274453, -0.00135978113, -0.000144974198, 0.000295507314,
     -8.6121232e-05),
    (-0.376139373, -0.309195846, -0.146528915, 0.026779376, 0.138362929, 0.167534843, 0.138752922, 0.0901588947,
     0.0482235029, 0.0217246711, 0.00834999885, 0.00276025152, 0.000789017358, 0.000195773086, 4.22829798e-05,
     7.96610311e-06),
    (2.41271835e-07, -0.264998734, -0.439387798, -0.482200384, -0.415104508, -0.295656741, -0.178401753, -0.092361033,
     -0.0413396731, -0.0160746723, -0.00543811684, -0.0016144613, -0.000411836489, -9.77147138e-05, -2.60173183e-05,
     -1.89988373e-06),
    (0.128379166, 1.06001425, 0.878782868, 0.642931104, 0.415107518, 0.236521125, 0.118930288, 0.0527749918,
     0.0206669848, 0.00714231888, 0.00217828434, 0.000586277514, 0.000139253214, 2.91890974e-05, 5.39945131e-06,
     1.00143916e-06),
    (0, 0.276326388, 0.520499885, 0.711155653, 0.842700779, 0.92290014, 0.966105163, 0.986671686, 0.995322287,
     0.998537302, 0.999593019, 0.999899387, 0.999977887, 0.999995708, 0.999999285, 0.999999881),
)  # fmt: skip
# erf(x) / x - 1 in x**2, below _ERF_BEND
_ERF_SMALL = (
    -7.80118898741314774e-10, 1.372297597471211e-8, -1.62091757495890991e-7, 1.64475176423778531e-6,
    -0.0000149247446591335475, 0.000120552953201983522, -0.000854832598968406395, 0.00522397760742314289,
    -0.0268661706432761717, 0.112837916709452529, -0.376126389031835466, 0.128379167095512567,
)  # fmt: skip
# log(erfc(t)) for 1 <= t <= 6
_ERF_LARGE_LOGARITHM = (
    1.03905738691201915e-12, -4.75176334748552807e-11, 1.01706243748106026e-9, -1.3522456280181732e-8,
    1.24833073788805134e-7, -8.45208151065413147e-7, 4.30185690059047191e-6, -0.0000164217745651421508,
    0.000044770773434288689, -0.0000697524039572403405, -0.0000459523730931495553, 0.00064282847617678842,
    -0.00177091930707406947, 0.000282222965569880679, 0.0190769594539256888, -0.102746644820181486,
    -0.636628702900909413, -1.12837728258747054, -1.84365054762045499e-7,
)  # fmt: skip
_ERF_BEND = 1.0
_ERF_LIMIT = {"float": 3.875 - 2.0**-22, "double": 6.0}
_TANH_LIMIT = {"float": 20.0, "double": 40.0}
"""Limit of twice the argument, above which tanh rounds to 1."""
_LOGISTIC_HIGH = {"float": 20.0, "double": 40.0}
"""Limit of the argument, above which logistic rounds to 1."""


def round_to_integer(f: Floats, x: str, factor: float) -> tuple[str, str]:
    """Rounds x * factor to a float and an integer, by adding 1.5 * 2**mantissa; |x * factor| < 2**(mantissa - 2)."""
    magic = 1.5 * 2.0**f.mantissa
    shifted = f.fma(x, f.constant(factor), f.constant(magic))
    nearest = f.subtract(shifted, f.constant(magic))
    return nearest, f.integer_operation("sub", f.to_bits(shifted), f.to_bits(f.constant(magic)))


def small_integer_to_float(f: Floats, k: str) -> str:
    """Converts an integer vector with |k| < 2**(mantissa - 2) to floats; AVX2 lacks this conversion for 64 bits."""
    magic = f.constant(1.5 * 2.0**f.mantissa)
    return f.subtract(f.from_bits(f.integer_operation("add", k, f.to_bits(magic))), magic)


def _clamp(f: Floats, x: str, low: float | None, high: float | None) -> str:
    """Clamps x to [low, high]; NaN stays."""
    if low is not None:
        x = f.select(f.compare("olt", x, f.constant(low)), f.constant(low), x)
    if high is not None:
        x = f.select(f.compare("ogt", x, f.constant(high)), f.constant(high), x)
    return x


def _biased(f: Floats, offset: int = 0) -> str:
    """The constant that, added to n, leaves n + offset, a normal exponent, plus the bias in the lowest bits."""
    return f.constant(1.5 * 2.0**f.mantissa + f.bias + offset)


def _reduced_expm1(f: Floats, x: str, biased: str, tail: str | None = None) -> tuple[str, str]:
    """Returns (e**r - 1, 2**(n + offset)) for x + tail = n ln 2 + r, |r| <= ln(2) / 2, and the `biased` of offset."""
    shifted = f.fma(x, f.constant(_LOG2_E), biased)
    scale = f.from_bits(f.integer_operation("shl", f.to_bits(shifted), f.whole(f.mantissa)))
    high, low = LN2[f.element]
    minus = f.subtract(biased, shifted)
    head = f.fma(minus, f.constant(high), x)
    r = f.fma(minus, f.constant(low), head)
    if tail is not None:
        r = f.add(r, tail)
    square, series = f.multiply(r, r), f.horner(r, _EXP[f.element])
    if f.element == "float" or tail is not None:
        return f.fma(square, series, r), scale
    lost = f.fma(minus, f.constant(low), f.subtract(head, r))  # the rounding error of r, which n = 1 doubles
    return f.add(r, f.fma(square, series, lost)), scale


def exp(f: Floats, x: str, tail: str | None = None) -> str:
    """e**(x + tail), with |tail| far below one; rounds to subnormal results, then 0.

    The powers of two exceed the range of normal exponents, so a part of the power is multiplied at the end.
    """
    negative, kept = f.compare("olt", x, f.constant(0.0)), _kept_back(f)
    biased = f.select(negative, _biased(f, kept), _biased(f, -kept))
    reduced, scale = _reduced_expm1(f, _clamp(f, x, *_EXP_RANGE[f.element]), biased, tail)
    rest = f.select(negative, f.constant(2.0**-kept), f.constant(2.0**kept))
    return f.multiply(f.fma(scale, reduced, scale), rest)


def exp_of_difference(f: Floats, x: str) -> str:
    """e**x for x below 88 (float64: 709), such as differences from a maximum; 0 where the result is subnormal.

    The bits are equal to those of `exp`, for two thirds of its instructions.
    """
    reduced, scale = _reduced_expm1(f, x, _biased(f))
    is_subnormal = f.compare("olt", x, f.constant(_SMALLEST_EXPONENT[f.element]))
    return f.select(is_subnormal, f.constant(0.0), f.fma(scale, reduced, scale))


def _kept_back(f: Floats) -> int:
    return f.bias + 1 >> 1


def expm1(f: Floats, x: str) -> str:
    """e**x - 1 without cancellation."""
    high = _EXP_RANGE[f.element][1]
    # 2**(n-1): 2**n itself may overflow
    reduced, scale = _reduced_expm1(f, _clamp(f, x, _EXPM1_LOW[f.element], high), _biased(f, -1))
    half = f.fma(scale, reduced, f.subtract(scale, f.constant(0.5)))
    result = f.multiply(half, f.constant(2.0))
    return f.select(f.compare("oeq", x, f.constant(0.0)), x, result)


def split_exponent(f: Floats, x: str) -> tuple[str, str]:
    """Returns (k, m) with x = 2**k m and sqrt(1/2) <= m < sqrt(2), for x > 0, including subnormal x."""
    tiny = f.compare("olt", x, f.constant(_SMALLEST_NORMAL[f.element]))
    shift = f.mantissa + 2
    bits = f.to_bits(f.select(tiny, f.multiply(x, f.constant(2.0**shift)), x))
    root = _SQRT_HALF_BITS[f.element]
    moved = f.integer_operation("add", bits, f.whole(_ONE_BITS[f.element] - root))
    k = f.integer_operation("sub", f.integer_operation("lshr", moved, f.whole(f.mantissa)), f.whole(f.bias))
    correction = f.writer.value(f"select <{f.lanes} x i1> {tiny}, {f.bits} {f.whole(shift)}, {f.bits} {f.whole(0)}")
    fraction = f.integer_operation("and", moved, f.whole((1 << f.mantissa) - 1))
    mantissa = f.from_bits(f.integer_operation("add", fraction, f.whole(root)))
    return f.integer_operation("sub", k, correction), mantissa


def _log_of(f: Floats, k: str, fraction: str, correction: str | None) -> str:
    """k ln 2 + log(1 + fraction) + correction (fdlibm's arrangement: the large terms are added last)."""
    high, low = f.constant(_LN2_SHORT[f.element][0]), f.constant(_LN2_SHORT[f.element][1])
    s = f.divide(fraction, f.add(fraction, f.constant(2.0)))
    z = f.multiply(s, s)
    series = f.multiply(z, f.estrin(z, _LOG[f.element]))
    half_square = f.multiply(f.multiply(fraction, fraction), f.constant(0.5))
    scale = small_integer_to_float(f, k)
    small = f.multiply(scale, low) if correction is None else f.fma(scale, low, correction)
    tail = f.fma(s, f.add(half_square, series), small)
    return f.fma(scale, high, f.subtract(fraction, f.subtract(half_square, tail)))


# ln 2 with a head short enough that k times it is exact
_LN2_SHORT = {
    "float": (0.693138122558593750, 9.05800061445916072e-6),
    "double": (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}


def log(f: Floats, x: str) -> str:
    """The natural logarithm; -inf at 0, NaN below."""
    k, mantissa = split_exponent(f, x)
    result = _log_of(f, k, f.subtract(mantissa, f.constant(1.0)), None)
    return _log_special(f, x, result, "0")


def log1p(f: Floats, x: str) -> str:
    """log(1 + x) without losing the bits of a small x."""
    one = f.constant(1.0)
    u = f.add(x, one)
    k, mantissa = split_exponent(f, u)
    lost = f.select(
        f.compare("oge", u, f.constant(2.0)),
        f.subtract(one, f.subtract(u, x)),
        f.subtract(x, f.subtract(u, one)),
    )
    near = f.writer.value(f"icmp eq {f.bits} {k}, {f.whole(0)}")
    correction = f.select(near, f.constant(0.0), f.divide(lost, u))
    fraction = f.select(near, x, f.subtract(mantissa, one))
    result = _log_special(f, x, _log_of(f, k, fraction, correction), "-1")
    return f.select(f.compare("oeq", x, f.constant(0.0)), x, result)


def _log_special(f: Floats, x: str, result: str, pole: str) -> str:
    """Replaces lanes of special x: infinity (inf), the pole (-inf), below the pole or NaN (NaN)."""
    result = f.select(f.compare("oeq", x, f.constant(float("inf"))), x, result)
    result = f.select(f.compare("oeq", x, f.constant(float(pole))), f.constant(float("-inf")), result)
    return f.select(f.compare("ult", x, f.constant(float(pole))), f.constant(float("nan")), result)


def tanh(f: Floats, x: str) -> str:
    """t / (2 + t) with t = expm1(2 |x|) and the sign of x: the error of a large t hardly affects the result."""
    one = f.constant(1.0)
    doubled = f.multiply(f.unary("fabs", x), f.constant(2.0))
    reduced, scale = _reduced_expm1(f, _clamp(f, doubled, None, _TANH_LIMIT[f.element]), _biased(f, -1))
    half = f.fma(scale, reduced, f.subtract(scale, f.constant(0.5)))  # half of t
    total = f.add(half, one)
    lost = f.select(f.compare("olt", half, one), f.subtract(half, f.subtract(total, one)), f.constant(0.0))
    return f.copysign(_corrected(f, f.divide(half, total), lost), x)


def logistic(f: Floats, x: str) -> str:
    """1 / (1 + e**-x), with numerator and denominator times a power of two so that e**-x can't overflow.

    e**-x is 2**n (1 + r), so the denominator is 1 + 2**n, which is exact while both terms matter, plus 2**n r: it is
    rounded once and needs no correction. Only if 1 + 2**n has one bit too many, it loses its 1, which r then includes.
    """
    kept, lost = _kept_back(f), f.mantissa + 1
    clamped = _clamp(f, x, _EXP_RANGE[f.element][0], _LOGISTIC_HIGH[f.element])
    reduced, scale = _reduced_expm1(f, f.negate(clamped), _biased(f, -kept))
    loses = f.compare("oeq", scale, f.constant(2.0 ** (lost - kept)))
    reduced = f.select(loses, f.add(reduced, f.constant(2.0**-lost)), reduced)
    one = f.constant(2.0**-kept)
    return f.divide(one, f.fma(scale, reduced, f.add(scale, one)))


def _corrected(f: Floats, quotient: str, lost: str) -> str:
    """Corrects t / (1 + t) if rounding 1 + t lost `lost`; the reciprocal of 1 + t is 1 - quotient."""
    return f.fma(f.negate(quotient), f.fma(f.negate(lost), quotient, lost), quotient)


def erf(f: Floats, x: str) -> str:
    """The error function.

    float32: a polynomial around the nearest quarter, with coefficients from a table. Selecting between two
    polynomials takes more arithmetic than a memory-bound gelu has time for.
    float64: a polynomial below 1; above it 1 - erfc, with erfc as the exponential of a polynomial.
    """
    t = f.unary("fabs", x)
    clamped = _clamp(f, t, None, _ERF_LIMIT[f.element])
    if f.element == "float":
        quarters = f.constant(1.5 * 2.0 ** (f.mantissa - 2))
        shifted = f.add(clamped, quarters)  # its lowest bits are the number of quarters
        d = f.subtract(clamped, f.subtract(shifted, quarters))
        *slopes, values = (f.lookup(table, f.to_bits(shifted)) for table in _ERF_PIECES)
        slope = slopes[0]
        for coefficient in slopes[1:]:
            slope = f.fma(slope, d, coefficient)
        first = f.compare("ole", t, f.constant(0.125))
        return f.copysign(f.fma(slope, d, f.select(first, d, values)), x)
    small = f.fma(t, f.estrin(f.multiply(x, x), _ERF_SMALL), t)
    reduced, scale = _reduced_expm1(f, f.estrin(clamped, _ERF_LARGE_LOGARITHM), _biased(f))
    large = f.fma(f.negate(scale), reduced, f.subtract(f.constant(1.0), scale))
    return f.copysign(f.select(f.compare("olt", t, f.constant(_ERF_BEND)), small, large), x)
