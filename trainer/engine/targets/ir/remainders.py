"""Exact remainders and floored quotients of floats, with the steps of NumPy's divmod, so that they agree bit for bit.

The remainder of a large quotient takes several divisions, each of which removes as many bits as the mantissa has;
so it is a helper function with a loop, which most vectors leave after one iteration.
"""

from __future__ import annotations

from trainer.engine.targets.ir.vectors import Floats
from trainer.engine.targets.ir.writer import Writer, vector


def remainder(f: Floats, a: str, b: str) -> str:
    """a - floor(a / b) * b with b's sign; NaN where b is 0 or a infinite."""
    truncated = _truncated_remainder(f, a, b)
    shifted = f.select(_crossed(f, truncated, b), f.add(truncated, b), truncated)
    return f.select(f.compare("oeq", truncated, f.constant(0.0)), f.copysign(f.constant(0.0), b), shifted)


def floor_divide(f: Floats, a: str, b: str) -> str:
    """floor(a / b) from the exact remainder (so 1.0 // 0.1 is 9); a / b where b is 0."""
    truncated = _truncated_remainder(f, a, b)
    exact = f.divide(f.subtract(a, truncated), b)
    quotient = f.select(_crossed(f, truncated, b), f.subtract(exact, f.constant(1.0)), exact)
    floor = f.unary("floor", quotient)
    low = f.compare("ogt", f.subtract(quotient, floor), f.constant(0.5))
    nearest = f.select(low, f.add(floor, f.constant(1.0)), floor)
    plain = f.divide(a, b)
    vanished = f.compare("oeq", quotient, f.constant(0.0))
    result = f.select(vanished, f.copysign(f.constant(0.0), plain), nearest)
    return f.select(f.compare("oeq", b, f.constant(0.0)), plain, result)


def _crossed(f: Floats, truncated: str, b: str) -> str:
    """Lanes whose truncated remainder is not 0 and differs in sign from b."""
    zero = f.constant(0.0)
    differs = f.logical("xor", f.compare("olt", truncated, zero), f.compare("olt", b, zero))
    return f.logical("and", f.compare("one", truncated, zero), differs)


def _truncated_remainder(f: Floats, a: str, b: str) -> str:
    """C's fmod: exact, with a's sign. float32 is computed in float64, where its quotients can't overflow."""
    wide = vector("double", f.lanes)
    parameters = [(wide, "%a"), (wide, "%b")]
    name = f"truncated_remainder_{f.lanes}"
    f.writer.helper(name, wide, parameters, lambda writer: _write_loop(writer, f.lanes))
    if f.element == "double":
        result = f.writer.call(wide, name, (wide, a), (wide, b))
    else:
        extended = [(wide, f.writer.value(f"fpext {f.type} {value} to {wide}")) for value in (a, b)]
        result = f.writer.value(f"fptrunc {wide} {f.writer.call(wide, name, *extended)} to {f.type}")
    return f.select(f.compare("uno", b, b), b, result)


def _write_loop(writer: Writer, lanes: int) -> None:
    """Subtracts integer multiples of |b|: rest - trunc(rest / |b|) |b| is exact for any rounding of the quotient."""
    f = Floats(writer, "double", lanes)
    start, divisor = f.unary("fabs", "%a"), f.unary("fabs", "%b")
    far = f.multiply(divisor, f.constant(2.0**1023))
    farthest = f.multiply(far, f.constant(2.0**100))  # for subnormal divisors
    writer.branch("divide")
    writer.label("divide")
    writer.emit(f"%rest = phi {f.type} [ {start}, %entry ], [ %next, %divide ]")
    active = f.compare("oge", f.unary("fabs", "%rest"), divisor)
    infinite = f.constant(float("inf"))
    overflows = f.compare("oeq", f.unary("fabs", f.divide("%rest", divisor)), infinite)
    still = f.compare("oeq", f.unary("fabs", f.divide("%rest", far)), infinite)
    step = f.select(overflows, f.select(still, farthest, far), divisor)
    multiple = f.unary("trunc", f.divide("%rest", step))
    left = f.fma(f.negate(multiple), step, "%rest")
    writer.emit(f"%next = select {f.mask} {active}, {f.type} {left}, {f.type} %rest")
    again = f.compare("oge", f.unary("fabs", "%next"), divisor)
    some = writer.intrinsic(f"vector.reduce.or.v{lanes}i1", "i1", (f.mask, again))
    writer.branch_if(some, "divide", "done")
    writer.label("done")
    below = f.compare("olt", "%next", f.constant(0.0))
    positive = f.select(below, f.add("%next", divisor), "%next")
    writer.emit(f"ret {f.type} {f.copysign(positive, '%a')}")
